/** The dialog that makes a model; its fields come from the API's description of ModelSpec. */

import { useId, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { problem } from "../api/errors";
import { api } from "../api/transport";
import { ModelSpecSchema } from "../gen/lmwarden/v1/model_pb";
import { modelPath } from "../lib/paths";
import { useCall } from "../parts/call";
import { Dialog } from "../parts/Dialog";
import { Fault, Skeleton } from "../parts/Panel";
import { describeSettings } from "./describe";
import { type Draft, fault, messageOf } from "./draft";
import { Fields } from "./Fields";

const describeSpec = () => describeSettings(ModelSpecSchema.typeName);

/** The dialog; it leads to the new model's page. */
export function AddModel({ onClose }: { onClose: () => void }) {
  const id = useId();
  const { route } = useLocation();
  const described = useCall(ModelSpecSchema.typeName, describeSpec);
  const [name, setName] = useState("");
  const [draft, setDraft] = useState<Draft>({});
  const [start, setStart] = useState(true);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const fields = described.value ?? [];
  const wrong = fields.some((f) => fault(f, draft[f.name] ?? "") !== undefined);
  const faults = error === undefined ? new Map<string, string>() : problem(error).fields;
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const spec = messageOf(
        ModelSpecSchema,
        fields,
        draft,
        fields.map((f) => f.name),
      );
      await api().models.createModel({ name: name.trim(), spec, stopped: !start });
      onClose();
      route(modelPath(name.trim()));
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Add a model" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <div class="form creating">
          <label for={id}>Name</label>
          <div class="control line">
            <input
              id={id}
              type="text"
              autocomplete="off"
              spellcheck={false}
              required
              value={name}
              aria-invalid={faults.has("name")}
              onInput={(e) => setName(e.currentTarget.value)}
            />
            <small>what clients send as "model": letters, digits and - . _ : /</small>
            {faults.has("name") && (
              <span class="fault" role="alert">
                {faults.get("name")}
              </span>
            )}
          </div>
        </div>
        {described.value !== undefined ? (
          <div>
            <Fields
              fields={fields}
              from={{}}
              draft={draft}
              faults={faults}
              creating
              change={(field, text) => setDraft({ ...draft, [field]: text })}
            />
          </div>
        ) : described.error === undefined ? (
          <Skeleton />
        ) : (
          <Fault error={described.error} retry={described.again} />
        )}
        {error !== undefined && faults.size === 0 && <Fault error={error} />}
        <div class="actions">
          <label class="grow">
            <input type="checkbox" checked={start} onChange={(e) => setStart(e.currentTarget.checked)} />{" "}
            start it at once
          </label>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class="primary"
            disabled={busy || wrong || name.trim() === "" || described.value === undefined}
          >
            Add
          </button>
        </div>
      </form>
    </Dialog>
  );
}
