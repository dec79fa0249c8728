/** What the router has learned of a model's engines and clients, and what it rests on. */
import type { Learned, Measure } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, count, milliseconds, plural, seconds, span } from "../lib/format";
import { Panel } from "./Panel";

interface Row {
  name: string;
  figure: string;
  samples: string;
  age: string;
}

/** Returns the rows of the table; a figure that is not known says so. */
export function learnedRows(learned: Learned): Row[] {
  const row = (name: string, measure: Measure | undefined, show: (value: number) => string): Row => {
    const age = milliseconds(measure?.age);
    return {
      name,
      figure: measure === undefined ? ABSENT : show(measure.value),
      samples: measure === undefined ? "0" : measure.samples === 0 ? "a guess" : count(measure.samples),
      age: age === undefined ? "-" : span(age / 1000),
    };
  };
  return [
    row("Prompt tokens computed per second", learned.prefillRate, (v) => count(v)),
    row("Tokens per byte of a prompt", learned.tokensPerByte, (v) => count(v, 3)),
    row("Growth of a prompt per turn, tokens", learned.growth, (v) => count(v)),
    row("Answer, tokens", learned.output, (v) => count(v)),
    row("Time of a turn", learned.service, seconds),
    row("Gap between turns, median", learned.gap, seconds),
    ...learned.shared.map((s) => ({
      name: "Shared prompt, tokens",
      figure: count(s.tokens),
      samples: count(s.samples),
      age: "-",
    })),
  ];
}

/** Says in a sentence what follows from the figures. */
export function learnedSentence(learned: Learned): string {
  const wait = (d: Learned["keep"]) => {
    const ms = milliseconds(d);
    return ms === undefined ? ABSENT : seconds(ms / 1000);
  };
  const parts = [
    `Of the gaps 95 % are within ${wait(learned.gapP95)}; ${plural(learned.ends, "conversation")} did not come back.`,
    `A conversation counts as at work for ${wait(learned.linger)} after a turn.`,
  ];
  if (learned.keep !== undefined) {
    parts.push(
      milliseconds(learned.keep) === 0
        ? `While others wait a place lasts one turn.`
        : `While others wait an idle one keeps its place for ${wait(learned.keep)}.`,
      `A place may be taken for one that waited long after ${wait(learned.spell)}.`,
    );
  }
  return parts.join(" ");
}

/** The panel. */
export function LearnedPanel({ learned }: { learned: Learned }) {
  return (
    <Panel title="What the router has learned" live>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Measured</th>
              <th scope="col">Figure</th>
              <th scope="col">Samples</th>
              <th scope="col">Latest, ago</th>
            </tr>
          </thead>
          <tbody>
            {learnedRows(learned).map((row) => (
              <tr key={row.name + row.figure}>
                <th scope="row">{row.name}</th>
                <td>{row.figure}</td>
                <td>{row.samples}</td>
                <td>{row.age}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <small>{learnedSentence(learned)}</small>
    </Panel>
  );
}
