/** Small marks: pills, dots, meters, sentences. */
import type { ComponentChildren } from "preact";
import type { Piece } from "../lib/verdict";
import type { Tone, Word } from "../lib/words";

/** A rounded word with a figure. */
export function Pill({
  tone,
  children,
  title,
}: {
  tone?: Tone | undefined;
  children: ComponentChildren;
  title?: string;
}) {
  const colour = tone === undefined || tone === "off" ? "" : ` ${tone}`;
  return (
    <span class={`pill${colour}`} title={title}>
      {children}
    </span>
  );
}

/** A state as a mark; its word is its name for those who do not see it. */
export function Dot({ word, tone, silent }: Word & { silent?: boolean }) {
  const mark = `dot${tone === "good" ? "" : ` ${tone}`}`;
  // A word that stands beside the mark need not be said twice.
  if (silent) return <span class={mark} aria-hidden="true" />;
  return <span class={mark} role="img" aria-label={word} title={word} />;
}

/** A state as a pill with mark and word. */
export function StatePill(state: Word) {
  return (
    <Pill tone={state.tone}>
      <Dot {...state} silent />
      <b>{state.word}</b>
    </Pill>
  );
}

/** A share of 0 to 1 as a short bar; the figure stands beside it. */
export function Meter({
  value,
  wide,
  tone,
}: {
  value: number | undefined;
  wide?: boolean;
  tone?: Tone | undefined;
}) {
  const colour = tone === "bad" ? " bad" : "";
  return (
    <span class={`meter${wide ? " wide" : ""}${colour}`} aria-hidden="true">
      <i style={{ width: `${Math.min(Math.max(value ?? 0, 0), 1) * 100}%` }} />
    </span>
  );
}

/** The sentence at the top of a page. */
export function Verdict({ pieces }: { pieces: readonly Piece[] }) {
  return (
    <p class="verdict">
      {pieces.map((piece) => (typeof piece === "string" ? piece : <b>{piece.strong}</b>))}
    </p>
  );
}
