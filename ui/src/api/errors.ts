/** What an error of the API says to a person, and to which field it belongs. */
import { Code, ConnectError } from "@connectrpc/connect";
import { type FieldViolation, readViolations } from "./violations";

/** An error as the page shows it. */
export interface Problem {
  /** The API's own sentence, or ours when the API could not be asked. */
  sentence: string;
  /** True when somebody else changed the object since it was read. */
  outdated: boolean;
  /** True when trying the same call again may well succeed. */
  passing: boolean;
  /** Sentences by the proto name of the field they are about. */
  fields: ReadonlyMap<string, string>;
}

const unreachable =
  "The daemon does not answer. It may be restarting, or the network between is down; this page tries again by itself.";

/** Turns whatever a call threw into what the page shows. */
export function problem(error: unknown): Problem {
  const e = ConnectError.from(error);
  // A browser reports a refused connection as a TypeError, which has no sentence of use.
  const network = e.code === Code.Unknown && e.cause instanceof TypeError;
  return {
    sentence: network ? unreachable : capital(e.rawMessage) || `The call failed: ${Code[e.code]}.`,
    outdated: e.code === Code.Aborted,
    passing: network || e.code === Code.Unavailable || e.code === Code.DeadlineExceeded,
    fields: new Map(violations(e).map((v) => [v.field, capital(v.message)])),
  };
}

function violations(e: ConnectError): FieldViolation[] {
  const found: FieldViolation[] = [];
  for (const detail of e.details) {
    if ("type" in detail && detail.type === "buf.validate.Violations") {
      found.push(...readViolations(detail.value));
    }
  }
  return found;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
