/** A call whose answer a page shows once, with a way to ask again. */
import { useCallback, useEffect, useState } from "preact/hooks";

/** What a page knows of its call. */
export interface Call<T> {
  /** The last answer; kept while the next one is under way. */
  value: T | undefined;
  /** Why the last try failed; undefined when it did not. */
  error: unknown;
  busy: boolean;
  again: () => void;
}

/**
 * Calls when mounted and whenever `key` changes; an answer that comes after the next
 * question is dropped.
 */
export function useCall<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Call<T> {
  const [state, setState] = useState<{ value?: T; error?: unknown; busy: boolean }>({ busy: true });
  const [round, setRound] = useState(0);
  // `key` stands for everything that `ask` closes over; `round` is the reader's "again".
  useEffect(() => {
    const stop = new AbortController();
    setState((s) => ({ ...s, busy: true }));
    ask(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) setState({ value, busy: false });
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setState((s) => ({ ...s, error, busy: false }));
      },
    );
    return () => stop.abort();
  }, [key, round]);
  const again = useCallback(() => setRound((n) => n + 1), []);
  return { value: state.value, error: state.error, busy: state.busy, again };
}
