import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { cleanup, fireEvent, render, screen, within } from "@testing-library/preact";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RoutingCard, RoutingCardSchema } from "../gen/lmwarden/v1/routing_pb";
import { now } from "../store";
import { Door } from "./Door";

const START = 1_000_000_000;

function card(held: number, more: object = {}): RoutingCard {
  return create(RoutingCardSchema, {
    model: "qwen3-4b",
    held,
    oldestHeld: { seconds: 200n },
    queue: Array.from({ length: Math.min(held, 16) }, (_, i) => ({
      conversation: `${i.toString(16)}d2e948af1b0c775`,
      tokens: BigInt(10_700 + i),
      arrived: timestampFromMs(START - 200_000 + i * 10_000),
      position: i + 1,
      reason: i === 0 ? "waits for a replica" : "waits for room in a cache",
    })),
    ...more,
  });
}

const rows = () =>
  screen.getAllByRole("row").map((row) =>
    within(row)
      .queryAllByRole("cell")
      .map((c) => c.textContent?.replaceAll("\u00a0", " ")),
  );

beforeEach(() => {
  now.value = START;
});
afterEach(cleanup);

describe("the door", () => {
  it("says for each in which place it waits, for how long and for what", () => {
    render(<Door card={card(2)} at={START} />);
    expect(
      screen.getByRole("region", { name: "At the door" }).textContent?.replaceAll("\u00a0", " "),
    ).toContain("2 turns wait");
    expect(screen.getByRole("rowheader", { name: "1 · next" })).toBeTruthy();
    expect(rows().slice(1)).toEqual([
      ["0d2e", "10,700 tokens", "3 min 20 s", "waits for a replica"],
      ["1d2e", "10,701 tokens", "3 min 10 s", "waits for room in a cache"],
    ]);
    expect(screen.getByRole("link", { name: "0d2e" }).getAttribute("href")).toContain("id=0d2e948af1b0c775");
  });

  it("folds a long queue and says how many are not listed", () => {
    render(<Door card={card(40)} at={START} />);
    expect(rows()).toHaveLength(1 + 6);
    fireEvent.click(screen.getByRole("button", { name: "10 more" }));
    expect(rows()).toHaveLength(1 + 16);
    expect(screen.getByText(/^24.turns more after these\.$/)).toBeTruthy();
  });

  it("goes on waiting while no news comes", async () => {
    render(<Door card={card(1)} at={START} />);
    now.value = START + 5_000;
    expect(await screen.findByRole("cell", { name: /^3.min 25.s$/ })).toBeTruthy();
  });

  it("says what would let in those who wait, also in a moment in which nobody does", () => {
    const message = "In the last 5 minutes 2.4 conversations on average waited.";
    render(<Door card={card(0, { door: { message } })} at={START} />);
    expect(screen.getByText(message)).toBeTruthy();
    expect(screen.queryByRole("table")).toBeNull();
  });

  it("is not there while nobody waits", () => {
    const { container } = render(<Door card={card(0)} at={START} />);
    expect(container.textContent).toBe("");
  });

  it("names no conversation where none was told", () => {
    render(
      <Door
        card={card(1, { queue: [{ position: 1, tokens: 5n, reason: "waits for a replica" }] })}
        at={START}
      />,
    );
    expect(rows()[1]).toEqual(["none told", "5 tokens", "0 s", "waits for a replica"]);
  });
});
