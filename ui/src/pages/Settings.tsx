/** What the daemon is and how the box fares: facts to read, and the doctor's checks. */
import { api } from "../api/transport";
import type { Check } from "../gen/lmwarden/v1/system_service_pb";
import { dateTime, plural, secondsSince, span } from "../lib/format";
import { Dot } from "../parts/bits";
import { useCall } from "../parts/call";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { info, now } from "../store";

/** The page. */
export function Settings() {
  useTitle("Settings");
  const doctor = useCall("doctor", (signal) => api().system.runDoctor({}, { signal }));
  const checks = doctor.value?.checks;
  return (
    <>
      <div class="top">
        <h1>Settings</h1>
      </div>
      {checks && <p class="verdict">{verdict(checks)}</p>}
      <Panel
        title="Checks of the box"
        end={
          <button type="button" disabled={doctor.busy} onClick={doctor.again}>
            Check again
          </button>
        }
      >
        {doctor.error !== undefined && <Fault error={doctor.error} retry={doctor.again} />}
        {checks === undefined && doctor.error === undefined && <Skeleton />}
        {checks?.length === 0 && <p class="empty">The daemon knows no check for this box.</p>}
        {checks && checks.length > 0 && <Checks checks={checks} />}
      </Panel>
      <Daemon />
    </>
  );
}

function verdict(checks: readonly Check[]): string {
  const failed = checks.filter((c) => !c.ok).length;
  if (failed === 0) return `All ${plural(checks.length, "check")} passed.`;
  return `${plural(failed, "check")} of ${checks.length} did not pass; what to do stands beside each.`;
}

function Checks({ checks }: { checks: readonly Check[] }) {
  return (
    <div class="scroll">
      <table class="rows">
        <tbody>
          {checks.map((check) => (
            <tr key={check.name}>
              <th scope="row">
                <Dot word={check.ok ? "passed" : "did not pass"} tone={check.ok ? "good" : "bad"} />
                &ensp;{check.name}
              </th>
              <td class="text wrap">
                {check.message} {check.fix && <small>{check.fix}</small>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Daemon() {
  const facts = info.value;
  const up = secondsSince(facts?.started, now.value);
  return (
    <Panel title="Daemon" beside={<small>set in its configuration file, read when it starts</small>}>
      {facts === undefined ? (
        <Skeleton />
      ) : (
        <dl class="facts-list">
          <dt>Version</dt>
          <dd>{facts.version}</dd>
          <dt>Started</dt>
          <dd>
            {dateTime(facts.started)}
            {up === undefined ? "" : `, up ${span(up)}`}
          </dd>
          <dt>Clients speak to</dt>
          <dd>
            <code>{facts.inferenceUrl}</code>
          </dd>
          <dt>API and page</dt>
          <dd>
            <code>{facts.adminUrl}</code>
          </dd>
          <dt>Data</dt>
          <dd>
            <code>{facts.dataDir}</code>
          </dd>
          <dt>Configuration</dt>
          <dd>{facts.configFile ? <code>{facts.configFile}</code> : "no file: defaults and flags"}</dd>
          <dt>Engines and cards</dt>
          <dd>{facts.simulated ? "simulated" : facts.cards || "no cards"}</dd>
        </dl>
      )}
    </Panel>
  );
}
