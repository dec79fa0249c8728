import { create } from "@bufbuild/protobuf";
import { cleanup, fireEvent, render, screen } from "@testing-library/preact";
import { afterEach, expect, it } from "vitest";
import { DecisionClass, RequestRecordSchema } from "../gen/lmwarden/v1/routing_pb";
import { Decisions, where } from "./Decisions";

const record = (id: string, more: object = {}) =>
  create(RequestRecordSchema, {
    id,
    decision: DecisionClass.STICKY,
    conversation: "5c11aabbccddeeff",
    turn: 6n,
    replica: 1,
    ...more,
  });

afterEach(cleanup);

it("says who went where, and from which busy home", () => {
  expect(where(record("a"))).toBe("5c11 turn 6 → 1");
  expect(where(record("a", { decision: DecisionClass.SPILLED, home: 0 }))).toBe(
    "5c11 turn 6 → 1, home 0 busy",
  );
  expect(where(record("a", { conversation: "", turn: 0n }))).toBe("no conversation → 1");
});

it("keeps still while somebody points at it", () => {
  const panel = (ids: string[]) => <Decisions model="m" records={ids.map((id) => record(id))} />;
  const { rerender } = render(panel(["a"]));
  const list = screen.getByRole("list");
  const addresses = () => [...list.querySelectorAll("a")].map((a) => a.getAttribute("href"));
  fireEvent.mouseEnter(list);
  rerender(panel(["b", "a"]));
  expect(addresses()).toEqual(["/requests/a"]);
  fireEvent.mouseLeave(list);
  expect(addresses()).toEqual(["/requests/b", "/requests/a"]);
});
