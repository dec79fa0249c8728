import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { useTransport } from "../api/transport";
import { describeMessage } from "../dev/describe";
import { Applies } from "../gen/lmwarden/v1/face_pb";
import { RoutingSettingsSchema } from "../gen/lmwarden/v1/routing_pb";
import {
  type SettingsField,
  SettingsFieldSchema,
  SettingsKind,
  SystemService,
} from "../gen/lmwarden/v1/system_service_pb";
import { forgetDescriptions } from "./describe";
import { type Change, SettingsForm } from "./SettingsForm";

type Save = (change: Change<typeof RoutingSettingsSchema>) => Promise<void>;

const settings = create(RoutingSettingsSchema, { spillThreshold: 8 });

function serve(fields: SettingsField[]) {
  useTransport(
    createRouterTransport(({ service }) => {
      service(SystemService, { describeSettings: () => ({ fields }) });
    }),
  );
}

function show(save: Save, reload = vi.fn(async () => {}), readOnly = "") {
  const form = (revision: bigint) => (
    <SettingsForm
      title="Routing settings"
      schema={RoutingSettingsSchema}
      current={settings}
      revision={revision}
      readOnly={readOnly}
      save={save}
      reload={reload}
    />
  );
  const { rerender } = render(form(3n));
  return { reload, revise: (revision: bigint) => rerender(form(revision)) };
}

const threshold = () => screen.findByLabelText("Spill threshold") as Promise<HTMLInputElement>;
const button = (name: RegExp) => screen.getByRole("button", { name }) as HTMLButtonElement;

beforeEach(() => {
  forgetDescriptions();
  serve(describeMessage(RoutingSettingsSchema));
});
afterEach(cleanup);

describe("a settings form", () => {
  it("sends the changed fields with the revision they were made on", async () => {
    const save = vi.fn<Save>(async () => {});
    const { revise } = show(save);
    fireEvent.input(await threshold(), { target: { value: "4" } });
    // Somebody else saves while the reader types: the old revision must go out.
    revise(4n);
    fireEvent.click(button(/^Save 1.change$/));
    await waitFor(() => expect(save).toHaveBeenCalledOnce());
    const change = save.mock.calls[0]?.[0];
    expect(change?.names).toEqual(["spill_threshold"]);
    expect(change?.message.spillThreshold).toBe(4);
    expect(change?.revision).toBe(3n);
  });

  it("shows a field that was added to the description", async () => {
    serve([
      ...describeMessage(RoutingSettingsSchema),
      create(SettingsFieldSchema, {
        name: "warm_up",
        kind: SettingsKind.UINT,
        min: 1,
        max: 9,
        face: {
          label: "Warm-up",
          help: "Requests sent before the first.",
          unit: "requests",
          applies: Applies.LIVE,
        },
      }),
    ]);
    show(async () => {});
    const added = (await screen.findByLabelText("Warm-up")) as HTMLInputElement;
    expect(screen.getByText("requests, 1 to 9; requests sent before the first.")).toBeTruthy();
    fireEvent.input(added, { target: { value: "10" } });
    expect(await screen.findByText("This must be at most 9.")).toBeTruthy();
    expect(button(/^Save/).disabled).toBe(true);
  });

  it("shows advanced fields after a click", async () => {
    show(async () => {});
    await threshold();
    expect(screen.queryByLabelText("Longest queue")).toBeNull();
    fireEvent.click(button(/more settings/));
    expect(await screen.findByLabelText("Longest queue")).toBeTruthy();
  });

  it("tells that somebody else was faster, reloads, and keeps the reader's change", async () => {
    const save = vi.fn<Save>(async () => {
      throw new ConnectError("revision 3 is stale, the current one is 4", Code.Aborted);
    });
    const { reload } = show(save);
    fireEvent.input(await threshold(), { target: { value: "4" } });
    fireEvent.click(button(/^Save 1/));
    expect((await screen.findByRole("alert")).textContent).toContain("Somebody else changed these settings");
    expect(reload).toHaveBeenCalledOnce();
    expect((await threshold()).value).toBe("4");
  });

  it("shows the API's sentence at the field it is about", async () => {
    show(async () => {
      throw violation("spill_threshold", "must not exceed the engine's limit of 32");
    });
    const input = await threshold();
    fireEvent.input(input, { target: { value: "64" } });
    fireEvent.click(button(/^Save 1/));
    expect(await screen.findByText("Must not exceed the engine's limit of 32")).toBeTruthy();
    expect(input.getAttribute("aria-invalid")).toBe("true");
  });

  it("shows any other refusal above the fields", async () => {
    show(async () => {
      throw new ConnectError("model qwen3-4b is being deleted", Code.FailedPrecondition);
    });
    fireEvent.input(await threshold(), { target: { value: "4" } });
    fireEvent.click(button(/^Save 1/));
    expect((await screen.findByRole("alert")).textContent).toContain("Model qwen3-4b is being deleted");
  });

  it("goes back to what is in force", async () => {
    show(async () => {});
    fireEvent.input(await threshold(), { target: { value: "4" } });
    fireEvent.click(button(/^Reset$/));
    await waitFor(async () => expect((await threshold()).value).toBe("8"));
    expect(button(/^Save$/).disabled).toBe(true);
  });

  it("says why nothing can be changed, and closes every field", async () => {
    show(async () => {}, undefined, "declared in /etc/lmwarden.yaml; change it there");
    expect((await threshold()).disabled).toBe(true);
    expect(screen.getByText(/declared in/)).toBeTruthy();
    expect(screen.queryByRole("button", { name: /^Save/ })).toBeNull();
  });
});

/** An error as protovalidate sends it: buf.validate.Violations, written by hand. */
function violation(field: string, message: string): ConnectError {
  const text = new TextEncoder();
  const piece = (number: number, bytes: Uint8Array) =>
    new Uint8Array([(number << 3) | 2, bytes.length, ...bytes]);
  const element = piece(2, text.encode(field));
  const path = piece(1, element);
  const one = new Uint8Array([...piece(5, path), ...piece(3, text.encode(message))]);
  const error = new ConnectError("invalid argument", Code.InvalidArgument);
  error.details = [{ type: "buf.validate.Violations", value: piece(1, one) }];
  return error;
}
