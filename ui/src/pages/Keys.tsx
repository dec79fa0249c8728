/** The keys of the inference endpoint by name, and what the clients of each may take. */
import { useState } from "preact/hooks";
import { api } from "../api/transport";
import { describeSettings } from "../form/describe";
import { draftOf, spoken } from "../form/draft";
import { SettingsForm } from "../form/SettingsForm";
import { type Key, KeyLimitsSchema } from "../gen/lmwarden/v1/key_service_pb";
import { type SettingsField, SettingsKind } from "../gen/lmwarden/v1/system_service_pb";
import { count, plural } from "../lib/format";
import { keyPath } from "../lib/paths";
import { useCall } from "../parts/call";
import { useFilter } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { events } from "../store";

/** Stands for every key, and where no key is asked for, for all clients together. */
const EVERY = "*";

/** The page. */
export function Keys() {
  useTitle("Keys");
  const { query } = useFilter();
  // A change by anybody, also of the keys file, is an event; then the list is asked for again.
  const change = events.value?.find((e) => e.kind.startsWith("key"))?.id ?? 0n;
  const listed = useCall(`${change}`, async (signal) => (await api().keys.listKeys({}, { signal })).keys);
  const [answered, setAnswered] = useState<Key>();
  const keys = listed.value?.map((key) => newer(key, answered));
  const name = query.key ?? EVERY;
  const chosen = keys?.find((key) => key.name === name);
  const every = keys?.length === 1 ? "all clients" : "every key";
  return (
    <>
      <div class="top">
        <h1>Keys</h1>
      </div>
      {keys && <p class="verdict">{verdict(keys)}</p>}
      <Panel title="Limits in force" beside={<small>requests of all keys of one name count together</small>}>
        {listed.error !== undefined && <Fault error={listed.error} retry={listed.again} />}
        {keys === undefined && listed.error === undefined && <Skeleton />}
        {keys && <Table keys={keys} chosen={name} every={every} />}
      </Panel>
      {keys && chosen === undefined && (
        <p>
          There is no key of the name {name}. <a href={keyPath(EVERY)}>Limits of {every}</a>
        </p>
      )}
      {chosen && (
        <Limits
          key={name}
          title={`Limits of ${name === EVERY ? every : name}`}
          chosen={chosen}
          answered={setAnswered}
          changed={listed.again}
        />
      )}
    </>
  );
}

/** What a change was answered with counts until the list is as new. */
function newer(listed: Key, answered: Key | undefined): Key {
  return answered?.name === listed.name && answered.revision > listed.revision ? answered : listed;
}

function verdict(keys: readonly Key[]): string {
  const named = keys.filter((key) => key.name !== EVERY).length;
  if (named === 0) return "No key is asked for: what is stated for * holds for all clients together.";
  return `${plural(named, "key")}. Where one states no limit of its own, that of * holds for it.`;
}

interface TableProps {
  keys: readonly Key[];
  /** Name of the key whose form is open. */
  chosen: string;
  /** Whom "*" stands for. */
  every: string;
}

function Table({ keys, chosen, every }: TableProps) {
  const described = useCall(KeyLimitsSchema.typeName, () => describeSettings(KeyLimitsSchema.typeName));
  if (described.error !== undefined) return <Fault error={described.error} retry={described.again} />;
  const fields = described.value;
  if (fields === undefined) return <Skeleton />;
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            {fields.map((field) => (
              <th key={field.name} scope="col">
                {heading(field)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <Row
              key={key.name}
              of={key}
              fields={fields}
              chosen={key.name === chosen}
              note={noteOf(key, every)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function noteOf(key: Key, every: string): string {
  const notes = [key.name === EVERY ? every : "", key.declaredIn === "" ? "" : "declared"];
  return notes.filter((note) => note !== "").join(", ");
}

/** The label with its unit, where the label does not hold it. */
function heading(field: SettingsField): string {
  const { label = field.name, unit = "" } = field.face ?? {};
  return unit === "" || label.toLowerCase().includes(unit) ? label : `${label}, ${unit}`;
}

interface RowProps {
  of: Key;
  fields: readonly SettingsField[];
  chosen: boolean;
  /** Stands beside the name. */
  note: string;
}

function Row({ of, fields, chosen, note }: RowProps) {
  const stated = draftOf(KeyLimitsSchema, of.limits, fields);
  const inForce = draftOf(KeyLimitsSchema, of.inForce, fields);
  return (
    <tr>
      <th scope="row">
        <a href={keyPath(of.name)} aria-current={chosen ? "true" : undefined}>
          {of.name}
        </a>
        {note !== "" && <small> {note}</small>}
      </th>
      {fields.map((field) => {
        const text = inForce[field.name] ?? "";
        return (
          <td key={field.name} class={text === "" ? "absent" : ""}>
            {figure(field, text)}
            {text !== "" && stated[field.name] === "" && <small> of *</small>}
          </td>
        );
      })}
    </tr>
  );
}

function figure(field: SettingsField, text: string): string {
  if (text === "") return "not set";
  return field.kind === SettingsKind.UINT ? count(Number(text)) : spoken(field, text);
}

interface LimitsProps {
  title: string;
  chosen: Key;
  /** Takes in a key as the API has just answered it. */
  answered: (key: Key | undefined) => void;
  /** Asks for the list again: what is stated for * changes the other keys' rows. */
  changed: () => void;
}

function Limits({ title, chosen, answered, changed }: LimitsProps) {
  const { name, declaredIn } = chosen;
  return (
    <SettingsForm
      title={title}
      schema={KeyLimitsSchema}
      current={chosen.limits}
      revision={chosen.revision}
      readOnly={declaredIn === "" ? "" : `declared in ${declaredIn}; change it there`}
      reload={async () => {
        const { keys } = await api().keys.listKeys({});
        answered(keys.find((key) => key.name === name));
      }}
      save={async ({ message, names, revision }) => {
        const answer = await api().keys.updateKey({
          name,
          limits: message,
          updateMask: { paths: names },
          revision,
        });
        answered(answer.key);
        changed();
      }}
    />
  );
}
