import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { useTransport } from "../api/transport";
import { ModelSchema } from "../gen/lmwarden/v1/model_pb";
import { InfoSchema, SystemService } from "../gen/lmwarden/v1/system_service_pb";
import { info, models } from "../store";
import { Connect } from "./Connect";

type Recipes = ServiceImpl<typeof SystemService>["listRecipes"];

const recipe = { client: "codex", title: "Codex", where: "in ~/.codex/config.toml", text: 'model = "a"' };

function show(listRecipes: Recipes, ...names: string[]) {
  useTransport(createRouterTransport(({ service }) => service(SystemService, { listRecipes })));
  models.value = { value: names.map((name) => create(ModelSchema, { name })), at: Date.now() };
  render(<Connect />);
}

beforeEach(() => {
  vi.stubGlobal("isSecureContext", true);
  info.value = create(InfoSchema, { inferenceUrl: "http://127.0.0.1:8000" });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  info.value = undefined;
  models.value = undefined;
});

describe("what to paste", () => {
  it("is asked for the chosen model", async () => {
    show(({ model }) => ({ recipes: [{ ...recipe, text: `model = "${model}"` }] }), "a", "b");
    expect(await screen.findByText('model = "a"')).toBeTruthy();
    fireEvent.change(screen.getByLabelText("Model"), { target: { value: "b" } });
    expect(await screen.findByText('model = "b"')).toBeTruthy();
  });

  it("says whether a key is asked for", async () => {
    show(() => ({ recipes: [recipe] }), "a");
    expect(await screen.findByText(/No key is asked for/)).toBeTruthy();
    cleanup();
    show(() => ({ note: "This daemon asks for a key.", recipes: [recipe] }), "a");
    expect(await screen.findByText("This daemon asks for a key.")).toBeTruthy();
    expect(screen.queryByText(/No key is asked for/)).toBeNull();
  });

  it("says that there is no model, and no recipe", async () => {
    show(() => ({ recipes: [] }));
    expect(await screen.findByText(/knows no client/)).toBeTruthy();
    expect(screen.getByText(/There is no model yet/)).toBeTruthy();
  });

  it("says why there is nothing to paste, and asks again", async () => {
    let refused = true;
    show(() => {
      if (refused) throw new ConnectError("the daemon is stopping", Code.Unavailable);
      return { recipes: [recipe] };
    }, "a");
    expect((await screen.findByRole("alert")).textContent).toContain("The daemon is stopping");
    refused = false;
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText('model = "a"')).toBeTruthy();
  });

  it("is copied as it stands, or says that it was not", async () => {
    const write = vi.fn(async (_: string) => {});
    vi.stubGlobal("navigator", { clipboard: { writeText: write } });
    show(() => ({ recipes: [recipe] }), "a");
    const button = await screen.findByRole("button", { name: "Copy for Codex" });
    fireEvent.click(button);
    await waitFor(() => expect(button.textContent).toBe("Copied"));
    expect(write).toHaveBeenCalledWith(recipe.text);
    write.mockRejectedValueOnce(new Error("the document is not focused"));
    fireEvent.click(button);
    await waitFor(() => expect(button.textContent).toBe("Not copied: select the text"));
  });
});
