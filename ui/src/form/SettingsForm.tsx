/**
 * A settings message as a form that saves. The texts in force come from the stream; the
 * form keeps only what the reader changed, and the revision that those changes were made
 * on, so that a change by somebody else is noticed and never overwritten in silence.
 */
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { useState } from "preact/hooks";
import { problem } from "../api/errors";
import { plural } from "../lib/format";
import { useCall } from "../parts/call";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { describeSettings } from "./describe";
import { changedNames, type Draft, draftOf, fault, messageOf } from "./draft";
import { Fields } from "./Fields";

/** A change as it is sent. */
export interface Change<T extends DescMessage> {
  message: MessageShape<T>;
  /** Proto names of the changed fields. */
  names: string[];
  revision: bigint;
}

interface SettingsFormProps<T extends DescMessage> {
  title: string;
  schema: T;
  /** What is in force; absent until it is known. */
  current: MessageShape<T> | undefined;
  revision: bigint;
  /** Why nothing can be changed here, or empty. */
  readOnly?: string;
  save: (change: Change<T>) => Promise<void>;
  /** Fetches what is in force now, after somebody else changed it. */
  reload: () => Promise<void>;
}

type Outcome = { kind: "saved" } | { kind: "outdated" } | { kind: "failed"; error: unknown };

/** The form in its panel. */
export function SettingsForm<T extends DescMessage>(props: SettingsFormProps<T>) {
  const { title, schema, current, readOnly } = props;
  const described = useCall(schema.typeName, () => describeSettings(schema.typeName));
  const [edits, setEdits] = useState<Draft>({});
  const [base, setBase] = useState<bigint>();
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>();

  const fields = described.value ?? [];
  const from = draftOf(schema, current, fields);
  const draft = { ...from, ...edits };
  const names = changedNames(fields, from, draft);
  const wrong = fields.some((f) => names.includes(f.name) && fault(f, draft[f.name] ?? "") !== undefined);

  const change = (name: string, text: string) => {
    if (names.length === 0) setBase(props.revision);
    setEdits({ ...edits, [name]: text });
    setOutcome(undefined);
  };
  const reset = () => {
    setEdits({});
    setOutcome(undefined);
  };
  const save = async () => {
    setBusy(true);
    try {
      const message = messageOf(schema, fields, draft, names);
      await props.save({ message, names, revision: base ?? props.revision });
      setEdits({});
      setOutcome({ kind: "saved" });
    } catch (error) {
      setOutcome(problem(error).outdated ? await outdated(error) : { kind: "failed", error });
    } finally {
      setBusy(false);
    }
  };
  const outdated = async (error: unknown): Promise<Outcome> => {
    try {
      await props.reload();
      setBase(undefined);
      return { kind: "outdated" };
    } catch {
      return { kind: "failed", error };
    }
  };

  return (
    <Panel
      title={title}
      beside={<small>{readOnly || "from the API's own description of each field"}</small>}
      end={
        !readOnly && (
          <>
            <span role="status" class="small">
              {outcome?.kind === "saved" && names.length === 0 ? "Saved." : ""}
            </span>
            <button type="button" disabled={names.length === 0 || busy} onClick={reset}>
              Reset
            </button>
            <button
              type="button"
              class="primary"
              disabled={names.length === 0 || wrong || busy}
              onClick={save}
            >
              {names.length === 0 ? "Save" : `Save ${plural(names.length, "change")}`}
            </button>
          </>
        )
      }
    >
      <Notice outcome={outcome} />
      {described.value === undefined || current === undefined ? (
        described.error === undefined ? (
          <Skeleton />
        ) : (
          <Fault error={described.error} retry={described.again} />
        )
      ) : (
        <Fields
          fields={fields}
          from={from}
          draft={draft}
          faults={outcome?.kind === "failed" ? problem(outcome.error).fields : new Map()}
          readOnly={readOnly !== undefined && readOnly !== ""}
          change={change}
        />
      )}
    </Panel>
  );
}

function Notice({ outcome }: { outcome: Outcome | undefined }) {
  if (outcome?.kind === "outdated") {
    return (
      <p class="banner" role="alert">
        Somebody else changed these settings meanwhile. The form now shows what is in force, with your changes
        on top: look them over and save again.
      </p>
    );
  }
  // What belongs to a field is said at the field.
  if (outcome?.kind === "failed" && problem(outcome.error).fields.size === 0)
    return <Fault error={outcome.error} />;
  return null;
}
