/**
 * The pure half of the settings forms: between a message of the API, the texts in a
 * form's fields, and the change that is sent. Fields are known only by the description
 * that the API gives of them, so a field added to the API needs no code here.
 */
import {
  type DescMessage,
  fromJson,
  getOption,
  type JsonObject,
  type JsonValue,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";
import { Applies, AppliesSchema, value_face } from "../gen/lmwarden/v1/face_pb";
import { type SettingsField, SettingsKind } from "../gen/lmwarden/v1/system_service_pb";
import { count } from "../lib/format";

/** Texts by the proto name of their field; an empty text means absent. */
export type Draft = Readonly<Record<string, string>>;

/** Returns the texts that show a message. */
export function draftOf<T extends DescMessage>(
  schema: T,
  message: MessageShape<T> | undefined,
  fields: readonly SettingsField[],
): Draft {
  const json = message === undefined ? {} : toJson(schema, message, { useProtoFieldName: true });
  const values = json as JsonObject;
  return Object.fromEntries(fields.map((f) => [f.name, textOf(f, values[f.name])]));
}

function textOf(field: SettingsField, value: JsonValue | undefined): string {
  if (value === undefined || value === null) return "";
  switch (field.kind) {
    case SettingsKind.STRING_LIST:
      return (value as string[]).join("\n");
    case SettingsKind.STRING_MAP:
      return Object.entries(value as Record<string, string>)
        .map(([name, v]) => `${name}=${v}`)
        .join("\n");
    case SettingsKind.DURATION:
      return String(value).replace(/s$/, "");
    case SettingsKind.ENUM:
      // The unspecified value is the absent one.
      return field.choices.some((c) => c.name === value && c.number !== 0) ? String(value) : "";
    default:
      return String(value);
  }
}

/** Returns the names of the fields whose texts differ, in the order of the description. */
export function changedNames(fields: readonly SettingsField[], from: Draft, to: Draft): string[] {
  return fields.map((f) => f.name).filter((name) => (from[name] ?? "") !== (to[name] ?? ""));
}

/** Returns the message that holds the named texts, for an update with a mask of those names. */
export function messageOf<T extends DescMessage>(
  schema: T,
  fields: readonly SettingsField[],
  draft: Draft,
  names: readonly string[],
): MessageShape<T> {
  const json: JsonObject = {};
  for (const field of fields) {
    if (!names.includes(field.name)) continue;
    const value = jsonOf(field, draft[field.name] ?? "");
    if (value !== undefined) json[field.name] = value;
  }
  return fromJson(schema, json, { ignoreUnknownFields: true });
}

function jsonOf(field: SettingsField, text: string): JsonValue | undefined {
  if (text.trim() === "") return undefined;
  switch (field.kind) {
    case SettingsKind.BOOL:
      return text === "true";
    case SettingsKind.UINT:
    case SettingsKind.DOUBLE:
      return plainNumber(text);
    case SettingsKind.DURATION:
      return `${plainNumber(text)}s`;
    case SettingsKind.STRING_LIST:
      return lines(text);
    case SettingsKind.STRING_MAP:
      return Object.fromEntries(lines(text).map(splitPair));
    default:
      return text.trim();
  }
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function splitPair(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}

/** Reads 4096 and 4,096 alike; NaN for what is no number. */
function plainNumber(text: string): number {
  const plain = text.trim().replace(/(?<=\d)[,'’\u00a0\u202f ](?=\d{3}(\D|$))/g, "");
  return /^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : Number.NaN;
}

/** Says what is wrong with a text before it is sent; undefined when nothing is. */
export function fault(field: SettingsField, text: string): string | undefined {
  if (text.trim() === "") return undefined;
  switch (field.kind) {
    case SettingsKind.UINT:
    case SettingsKind.DOUBLE:
    case SettingsKind.DURATION:
      return numberFault(field, plainNumber(text));
    case SettingsKind.STRING:
      return fits(field, text.trim())
        ? undefined
        : `"${text.trim()}" holds characters that cannot stand here.`;
    case SettingsKind.STRING_MAP: {
      const wrong = lines(text).find((line) => line.indexOf("=") < 1);
      return wrong === undefined ? undefined : `"${wrong}" is not NAME=value.`;
    }
    default:
      return undefined;
  }
}

function numberFault(field: SettingsField, value: number): string | undefined {
  const whole = field.kind === SettingsKind.UINT;
  if (Number.isNaN(value) || (whole && !Number.isInteger(value))) {
    return whole ? "This must be a whole number." : "This must be a number.";
  }
  if (field.min !== undefined && value < field.min) return `This must be at least ${limit(field.min)}.`;
  if (field.max !== undefined && value > field.max) return `This must be at most ${limit(field.max)}.`;
  return undefined;
}

/** A pattern that this browser cannot read refuses nothing: the API has the last word. */
function fits(field: SettingsField, text: string): boolean {
  if (field.pattern === "") return true;
  try {
    return new RegExp(field.pattern, "u").test(text);
  } catch {
    return true;
  }
}

function limit(value: number): string {
  return count(value, Number.isInteger(value) ? 0 : 2);
}

/** The small text beside a field: unit, range, and what it does. */
export function hint(field: SettingsField, text: string): string {
  const choice = field.choices.find((c) => c.name === text);
  if (choice !== undefined && choice.help !== "") return choice.help;
  const { min, max } = field;
  const range = min !== undefined && max !== undefined ? `${limit(min)} to ${limit(max)}` : "";
  const measure = [field.face?.unit ?? "", range].filter((part) => part !== "").join(", ");
  const help = field.face?.help ?? "";
  if (measure === "") return help;
  return help === "" ? measure : `${measure}; ${help.charAt(0).toLowerCase()}${help.slice(1)}`;
}

/** What a text says to a person: the label of a choice, or what absent means. */
export function spoken(field: SettingsField, text: string): string {
  if (text === "") return field.face?.absent || "not set";
  if (field.kind === SettingsKind.BOOL) return text === "true" ? "on" : "off";
  const choice = field.choices.find((c) => c.name === text);
  return choice?.label ?? text.replaceAll("\n", ", ");
}

/** Whether a switch stands on, given that an absent value may mean on. */
export function isOn(field: SettingsField, text: string): boolean {
  return text === "" ? field.face?.absent === "on" : text === "true";
}

/** When a change takes effect, in the API's own words, and whether something restarts for it. */
export function appliesWord(field: SettingsField): { word: string; restart: boolean } {
  const applies = field.face?.applies ?? Applies.UNSPECIFIED;
  const value = AppliesSchema.value[applies];
  return {
    word: value === undefined ? "" : getOption(value, value_face).label,
    restart: applies === Applies.ENGINE_RESTART || applies === Applies.DAEMON_RESTART,
  };
}

/** Fields by group, groups in the order in which they first appear. */
export function grouped(fields: readonly SettingsField[]): { group: string; fields: SettingsField[] }[] {
  const groups = new Map<string, SettingsField[]>();
  for (const field of fields) {
    const name = field.face?.group ?? "";
    groups.set(name, [...(groups.get(name) ?? []), field]);
  }
  return [...groups].map(([group, members]) => ({ group, fields: members }));
}
