/** The frame of everything shown, with its states: loading, empty, stale, error. */
import type { ComponentChildren } from "preact";
import { problem } from "../api/errors";
import { span } from "../lib/format";
import { silence, stale } from "../store";

interface PanelProps {
  title: string;
  /** Pills and small text right beside the title. */
  beside?: ComponentChildren;
  /** What stands at the right end of the header. */
  end?: ComponentChildren;
  /** True when the panel shows live figures, which grey when the stream is silent. */
  live?: boolean;
  /** Age of figures that are older than they should be, in seconds. */
  staleSeconds?: number | undefined;
  children: ComponentChildren;
}

/** A panel with a title. */
export function Panel({ title, beside, end, live, staleSeconds, children }: PanelProps) {
  const age = live && stale.value ? (silence.value ?? 0) / 1000 : staleSeconds;
  return (
    <section class={`panel${age === undefined ? "" : " stale"}`} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {beside}
        <span class="grow" />
        {age !== undefined && <span class="pill warn">figures {span(age)} old</span>}
        {end}
      </header>
      {children}
    </section>
  );
}

/** A still shape in the place of what is coming; invisible for the first 400 ms. */
export function Skeleton() {
  return (
    <div class="skeleton" role="status">
      <span class="hidden">loading</span>
      <i />
      <i />
      <i />
    </div>
  );
}

/** The API's own sentence, with a way on. */
export function Fault({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  return (
    <p class="banner bad" role="alert">
      {problem(error).sentence}{" "}
      {retry && (
        <button type="button" class="plain" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}
