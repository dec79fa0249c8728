import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/preact";
import { LocationProvider } from "preact-iso";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { useTransport } from "../api/transport";
import { describeMessage } from "../dev/describe";
import { fakeTransport } from "../dev/fake";
import { forgetDescriptions } from "../form/describe";
import { KeyLimitsSchema, KeyService, type UpdateKeyRequest } from "../gen/lmwarden/v1/key_service_pb";
import { EventSchema, SystemService } from "../gen/lmwarden/v1/system_service_pb";
import { events } from "../store";
import { Keys } from "./Keys";

function show(address = "/keys") {
  history.replaceState(null, "", address);
  render(
    <LocationProvider>
      <Keys />
    </LocationProvider>,
  );
}

/** The texts of a key's row, after its name. */
async function row(name: string): Promise<string[]> {
  const head = await screen.findByRole("rowheader", { name });
  const cells = within(head.closest("tr") as HTMLElement).getAllByRole("cell");
  return cells.map((cell) => cell.textContent ?? "");
}

async function fill(label: string, value: string): Promise<void> {
  fireEvent.input(await screen.findByLabelText(label), { target: { value } });
}

const save = () => fireEvent.click(screen.getByRole("button", { name: /^Save 1.change$/ }));

beforeEach(() => {
  forgetDescriptions();
  events.value = undefined;
  useTransport(fakeTransport(new URLSearchParams()));
});
afterEach(cleanup);

describe("the page of the keys", () => {
  it("lists the keys by name, with every limit that the API describes", async () => {
    show();
    expect(await row("alice")).toEqual(["not set", "not set", "not set", "not set", "not set"]);
    expect(screen.getAllByRole("columnheader").map((th) => th.textContent)).toEqual([
      "Key",
      "Requests at once",
      "Requests a minute",
      "Tokens a minute",
      "Largest request body, bytes",
      "Longest answer, tokens",
    ]);
    expect(screen.getByText(/^2.keys\. Where one states no limit/)).toBeTruthy();
  });

  it("sets a limit of one key, and shows it in force", async () => {
    show("/keys?key=alice");
    await fill("Requests a minute", "1,200");
    save();
    await waitFor(async () => expect((await row("alice"))[1]).toBe("1,200"));
    expect((await row("* every key"))[1]).toBe("not set");
    expect(await screen.findByText("Saved.")).toBeTruthy();
  });

  it("shows a limit of every key with each that states none", async () => {
    show();
    await fill("Requests at once", "8");
    save();
    await waitFor(async () => expect((await row("alice"))[0]).toBe("8 of *"));
    expect((await row("* every key"))[0]).toBe("8");
  });

  it("opens no declared limits, and names the file", async () => {
    show("/keys?key=bob");
    expect(await screen.findByText("declared in /etc/lmwarden.yaml; change it there")).toBeTruthy();
    expect(((await screen.findByLabelText("Requests a minute")) as HTMLInputElement).disabled).toBe(true);
  });

  it("says that a key in the address is not there", async () => {
    show("/keys?key=carol");
    expect(await screen.findByText(/There is no key of the name carol/)).toBeTruthy();
  });

  it("asks again when an event says that keys have changed", async () => {
    let names = ["*"];
    serve({ listKeys: () => ({ keys: names.map((name) => ({ name })) }) });
    show();
    expect(await screen.findByText(/^No key is asked for/)).toBeTruthy();
    expect(await row("* all clients")).toHaveLength(5);
    names = ["*", "dora"];
    events.value = [create(EventSchema, { id: 7n, kind: "keys_changed" })];
    expect(await row("dora")).toHaveLength(5);
  });

  it("sends the mask and the revision, and shows the API's refusal", async () => {
    const sent: UpdateKeyRequest[] = [];
    serve({
      listKeys: () => ({ keys: [{ name: "*", limits: {}, revision: 4n }] }),
      updateKey: (request) => {
        sent.push(request);
        throw new ConnectError("the limits of key * are declared in a file", Code.FailedPrecondition);
      },
    });
    show();
    await fill("Tokens a minute", "5000");
    save();
    expect((await screen.findByRole("alert")).textContent).toContain("The limits of key * are declared");
    expect(sent[0]).toMatchObject({
      name: "*",
      revision: 4n,
      limits: { maxTokensPerMinute: 5000 },
      updateMask: { paths: ["max_tokens_per_minute"] },
    });
  });

  it("says why the keys cannot be listed, and asks again", async () => {
    let refused = true;
    serve({
      listKeys: () => {
        if (refused) throw new ConnectError("the database is closed", Code.Unavailable);
        return { keys: [{ name: "*" }] };
      },
    });
    show();
    expect((await screen.findByRole("alert")).textContent).toContain("The database is closed");
    refused = false;
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText(/^No key is asked for/)).toBeTruthy();
  });
});

/** Serves the keys as a test wants them, with the real description of their limits. */
function serve(keys: Partial<ServiceImpl<typeof KeyService>>) {
  useTransport(
    createRouterTransport(({ service }) => {
      service(KeyService, keys);
      service(SystemService, { describeSettings: () => ({ fields: describeMessage(KeyLimitsSchema) }) });
    }),
  );
}
