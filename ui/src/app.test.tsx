import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, describe, expect, it, vi } from "vitest";
import { signOut, tokenWanted } from "./api/token";
import { useTransport } from "./api/transport";
import { App, wantedFor } from "./app";
import { fakeTransport } from "./dev/fake";

// A canvas is the browser tests' business.
vi.mock("./chart/plot", () => ({ drawTokens: () => ({ show() {}, resize() {}, destroy() {} }) }));

afterEach(() => {
  cleanup();
  signOut();
  tokenWanted.value = false;
});

describe("the page", () => {
  it("asks for what the path shows, and no more", () => {
    expect(wantedFor("/")).toMatchObject({ models: true, stats: "" });
    expect(wantedFor("/")).not.toHaveProperty("routing");
    expect(wantedFor("/models/qwen%2Fqwen3-4b")).toMatchObject({
      routing: "qwen/qwen3-4b",
      stats: "qwen/qwen3-4b",
    });
    expect(wantedFor("/models/a/replicas/2")).not.toHaveProperty("routing");
    expect(wantedFor("/requests")).not.toHaveProperty("stats");
  });

  it("asks for a token when the API wants one, and goes on with it", async () => {
    useTransport(fakeTransport(new URLSearchParams("token=1")));
    render(<App />);
    fireEvent.input(await screen.findByLabelText("Admin token", { selector: "input" }), {
      target: { value: "secret" },
    });
    fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
    await waitFor(() => expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("box-a"));
    expect(sessionStorage.getItem("lmwarden-token")).toBe("secret");
  });

  it("links only what exists", async () => {
    useTransport(fakeTransport(new URLSearchParams()));
    render(<App />);
    await waitFor(() => expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("box-a"));
    for (const name of ["Playground", "Stats"]) {
      expect(screen.queryByRole("link", { name })).toBeNull();
    }
  });
});
