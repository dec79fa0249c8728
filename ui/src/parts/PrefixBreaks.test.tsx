import { create } from "@bufbuild/protobuf";
import { cleanup, render, screen } from "@testing-library/preact";
import { afterEach, describe, expect, it } from "vitest";
import { PrefixBreakSchema, PrefixCulprit } from "../gen/lmwarden/v1/routing_pb";
import { PrefixBreaksPanel } from "./PrefixBreaks";

afterEach(cleanup);

describe("prompts that break their own prefix", () => {
  it("are named with their cause and their last conversation", () => {
    const one = create(PrefixBreakSchema, {
      client: "claude-cli/2.1",
      culprit: PrefixCulprit.ATTRIBUTION,
      conversation: "8f1c0a9be2d47750",
      message: "claude-cli/2.1 sends prompts that do not continue the ones before.",
    });
    render(<PrefixBreaksPanel model="m" breaks={[one]} />);
    expect(screen.getByText("attribution block")).toBeTruthy();
    expect(screen.getByText(/do not continue/)).toBeTruthy();
    expect(screen.getByRole("link").getAttribute("href")).toContain("8f1c0a9be2d47750");
  });

  it("take no room when there are none", () => {
    const { container } = render(<PrefixBreaksPanel model="m" breaks={[]} />);
    expect(container.textContent).toBe("");
  });
});
