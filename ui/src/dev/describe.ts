/**
 * Describes a settings message from the generated code, as the daemon does from its own.
 * Ranges are not in the generated code, so the few that the fixture needs stand here.
 */
import { create, type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { face, value_face } from "../gen/lmwarden/v1/face_pb";
import { type SettingsField, SettingsFieldSchema, SettingsKind } from "../gen/lmwarden/v1/system_service_pb";

const ranges: Readonly<Record<string, readonly [number, number]>> = {
  spill_threshold: [1, 4096],
  max_hold: [1, 3600],
  max_queue: [1, 1_048_576],
  conversation_idle: [60, 604_800],
  subagent_idle: [60, 604_800],
  max_conversations: [64, 1_048_576],
  replicas: [0, 64],
  tensor_parallel_size: [0, 16],
  max_model_len: [16, 16_777_216],
  max_num_seqs: [1, 4096],
  gpu_memory_utilization: [0.05, 1],
  max_concurrent_requests: [1, 1_048_576],
  max_requests_per_minute: [1, 100_000_000],
  max_tokens_per_minute: [1, 2_000_000_000],
  max_body_bytes: [1024, 4_294_967_296],
  max_answer_tokens: [1, 16_777_216],
};

/** Returns the fields of a message that have a face, in the order of the definition. */
export function describeMessage(schema: DescMessage): SettingsField[] {
  return schema.fields.flatMap((field) => {
    const look = getOption(field, face);
    if (look.label === "") return [];
    const range = ranges[field.name];
    return create(SettingsFieldSchema, {
      name: field.name,
      jsonName: field.jsonName,
      face: look,
      kind: kindOf(field),
      choices: choicesOf(field),
      ...(range ? { min: range[0], max: range[1] } : {}),
    });
  });
}

function choicesOf(field: DescField) {
  if (field.fieldKind !== "enum") return [];
  return field.enum.values.map((value) => {
    const look = getOption(value, value_face);
    return { name: value.name, number: value.number, label: look.label, help: look.help };
  });
}

function kindOf(field: DescField): SettingsKind {
  if (field.fieldKind === "enum") return SettingsKind.ENUM;
  if (field.fieldKind === "list") return SettingsKind.STRING_LIST;
  if (field.fieldKind === "map") return SettingsKind.STRING_MAP;
  if (field.fieldKind === "message") {
    return field.message.typeName === DurationSchema.typeName
      ? SettingsKind.DURATION
      : SettingsKind.UNSPECIFIED;
  }
  switch (field.scalar) {
    case ScalarType.BOOL:
      return SettingsKind.BOOL;
    case ScalarType.DOUBLE:
      return SettingsKind.DOUBLE;
    case ScalarType.STRING:
      return SettingsKind.STRING;
    default:
      return SettingsKind.UINT;
  }
}
