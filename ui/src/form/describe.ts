/** The API's description of a settings message, asked for once per page load. */
import { api } from "../api/transport";
import type { SettingsField } from "../gen/lmwarden/v1/system_service_pb";

const known = new Map<string, Promise<SettingsField[]>>();

/** Returns the fields of a settings message; a failed question is asked again next time. */
export function describeSettings(message: string): Promise<SettingsField[]> {
  let answer = known.get(message);
  if (answer === undefined) {
    answer = api()
      .system.describeSettings({ message })
      .then((response) => response.fields);
    known.set(message, answer);
    answer.catch(() => known.delete(message));
  }
  return answer;
}

/** Forgets all descriptions; for tests. */
export function forgetDescriptions(): void {
  known.clear();
}
