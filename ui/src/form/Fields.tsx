/** The fields of a settings message, drawn from the API's description of them. */
import { useId, useState } from "preact/hooks";
import { Applies } from "../gen/lmwarden/v1/face_pb";
import { type SettingsField, SettingsKind } from "../gen/lmwarden/v1/system_service_pb";
import { plural } from "../lib/format";
import { appliesWord, type Draft, fault, grouped, hint, isOn, spoken } from "./draft";

interface FieldsProps {
  fields: readonly SettingsField[];
  /** Texts in force; they say what a change is a change from. */
  from: Draft;
  draft: Draft;
  /** Sentences of the API by field. */
  faults: ReadonlyMap<string, string>;
  /** True while the object is made, when fields that apply only then are open. */
  creating?: boolean;
  readOnly?: boolean;
  change: (name: string, text: string) => void;
}

/** All fields; those that most people never touch come after a click. */
export function Fields(props: FieldsProps) {
  const [all, setAll] = useState(false);
  const advanced = props.fields.filter((f) => f.face?.advanced);
  // A field with something to say is never hidden.
  const shown = props.fields.filter((f) => all || !f.face?.advanced || props.faults.has(f.name));
  const groups = grouped(shown);
  return (
    <>
      <div class={props.creating ? "form creating" : "form"}>
        {groups.map(({ group, fields }) => (
          <>
            {groups.length > 1 && group !== "" && <div class="group">{group}</div>}
            {fields.map((field) => (
              <FieldRow key={field.name} field={field} {...props} />
            ))}
          </>
        ))}
      </div>
      {advanced.length > 0 && (
        <p style={{ marginTop: "12px" }}>
          <button type="button" class="plain" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? "Show fewer" : `Show ${plural(advanced.length, "more setting", "more settings")}`}
          </button>
        </p>
      )}
    </>
  );
}

function FieldRow({
  field,
  from,
  draft,
  faults,
  creating,
  readOnly,
  change,
}: FieldsProps & { field: SettingsField }) {
  const id = useId();
  const text = draft[field.name] ?? "";
  const before = from[field.name] ?? "";
  const wrong = fault(field, text) ?? faults.get(field.name);
  const applies = appliesWord(field);
  const closed =
    readOnly === true ||
    field.kind === SettingsKind.UNSPECIFIED ||
    (!creating && field.face?.applies === Applies.AT_CREATION);
  const was = !creating && text !== before ? `was ${spoken(field, before)}; ` : "";
  return (
    <div class="field">
      <label for={id}>{field.face?.label || field.name}</label>
      <div class={`control ${shapeOf(field)}`}>
        <Control
          id={id}
          field={field}
          text={text}
          disabled={closed}
          invalid={wrong !== undefined}
          change={(value) => change(field.name, value)}
        />
        <small id={`${id}-hint`}>
          {was}
          {hint(field, text)}
        </small>
        {wrong !== undefined && (
          <span class="fault" role="alert">
            {wrong}
          </span>
        )}
      </div>
      {!creating && <span class={`applies${applies.restart ? " restart" : ""}`}>{applies.word}</span>}
    </div>
  );
}

function shapeOf(field: SettingsField): string {
  switch (field.kind) {
    case SettingsKind.BOOL:
      return "switching";
    case SettingsKind.UINT:
    case SettingsKind.DOUBLE:
    case SettingsKind.DURATION:
      // Room for what an absent value means: "the engine's default".
      return (field.face?.absent ?? "").length > 10 ? "number long" : "number";
    case SettingsKind.STRING:
      return "line";
    case SettingsKind.STRING_LIST:
    case SettingsKind.STRING_MAP:
      return "tall";
    default:
      return "";
  }
}

interface ControlProps {
  id: string;
  field: SettingsField;
  text: string;
  disabled: boolean;
  invalid: boolean;
  change: (text: string) => void;
}

function Control({ id, field, text, disabled, invalid, change }: ControlProps) {
  const common = { id, disabled, "aria-invalid": invalid, "aria-describedby": `${id}-hint` } as const;
  switch (field.kind) {
    case SettingsKind.BOOL:
      return (
        <input
          {...common}
          class="switch"
          type="checkbox"
          role="switch"
          aria-checked={isOn(field, text)}
          checked={isOn(field, text)}
          onChange={(e) => change(String(e.currentTarget.checked))}
        />
      );
    case SettingsKind.ENUM:
      return (
        <select {...common} value={text} onChange={(e) => change(e.currentTarget.value)}>
          <option value="">{field.face?.absent || "default"}</option>
          {field.choices
            .filter((choice) => choice.number !== 0)
            .map((choice) => (
              <option key={choice.name} value={choice.name}>
                {choice.label || choice.name}
              </option>
            ))}
        </select>
      );
    case SettingsKind.STRING_LIST:
    case SettingsKind.STRING_MAP:
      return (
        <textarea
          {...common}
          rows={Math.min(Math.max(text.split("\n").length, 2), 8)}
          spellcheck={false}
          placeholder={field.face?.absent}
          value={text}
          onInput={(e) => change(e.currentTarget.value)}
        />
      );
    default:
      return (
        <input
          {...common}
          type="text"
          inputMode={shapeOf(field).startsWith("number") ? "decimal" : "text"}
          autocomplete="off"
          spellcheck={false}
          placeholder={field.face?.absent}
          value={text}
          onInput={(e) => change(e.currentTarget.value)}
        />
      );
  }
}
