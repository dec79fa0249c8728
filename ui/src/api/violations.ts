/**
 * Reads the field errors of a refused request. They are a buf.validate.Violations
 * message, whose generated code would weigh more than the rest of the API together;
 * three of its fields are read here from the wire instead.
 *
 *   Violations    { repeated Violation violations = 1; }
 *   Violation     { string message = 3; FieldPath field = 5; }
 *   FieldPath     { repeated FieldPathElement elements = 1; }
 *   FieldPathElement { string field_name = 2; }
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

/** One broken rule. */
export interface FieldViolation {
  /** Proto name of the innermost named field: "spill_threshold". */
  field: string;
  /** What is wrong with its value. */
  message: string;
}

type Fields = Map<number, Uint8Array[]>;

/** Collects the length-delimited fields of a message by number. */
function fieldsOf(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const found: Fields = new Map();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (type !== WireType.LengthDelimited) {
      reader.skip(type, number);
      continue;
    }
    const list = found.get(number) ?? [];
    list.push(reader.bytes());
    found.set(number, list);
  }
  return found;
}

/** Returns the violations of an encoded buf.validate.Violations. */
export function readViolations(bytes: Uint8Array): FieldViolation[] {
  const text = new TextDecoder();
  return (fieldsOf(bytes).get(1) ?? []).map((encoded) => {
    const violation = fieldsOf(encoded);
    const path = fieldsOf(violation.get(5)?.[0] ?? new Uint8Array());
    const names = (path.get(1) ?? []).map((element) =>
      text.decode(fieldsOf(element).get(2)?.[0] ?? new Uint8Array()),
    );
    return {
      field: names.filter((name) => name !== "").at(-1) ?? "",
      message: text.decode(violation.get(3)?.[0] ?? new Uint8Array()),
    };
  });
}
