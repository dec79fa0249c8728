/** Choices that narrow a list; they live in the address, so that a list can be sent to somebody. */
import { useLocation } from "preact-iso";
import { models } from "../store";

/** Returns the query of the address and a way to change one part of it. */
export function useFilter(): {
  query: Record<string, string>;
  set: (change: Record<string, string>) => void;
} {
  const { path, query, route } = useLocation();
  const set = (change: Record<string, string>) => {
    const next = Object.entries({ ...query, ...change }).filter(([, value]) => value !== "");
    const text = new URLSearchParams(next).toString();
    route(text === "" ? path : `${path}?${text}`, true);
  };
  return { query, set };
}

/** A choice with a label above it. */
export function Choice(props: {
  label: string;
  value: string;
  choices: readonly { value: string; word: string }[];
  set: (value: string) => void;
}) {
  return (
    <label>
      {props.label}
      <select value={props.value} onChange={(e) => props.set(e.currentTarget.value)}>
        {props.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.word}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The choice of a model; `all` is the word for none in particular, when that is possible. */
export function ModelChoice({
  value,
  all,
  set,
}: {
  value: string;
  all?: string;
  set: (value: string) => void;
}) {
  const names = models.value?.value.map((m) => m.name) ?? [];
  // A name in the address that the box does not know stays visible as what was asked for.
  const shown = value === "" || names.includes(value) ? names : [...names, value];
  const choices = shown.map((name) => ({ value: name, word: name }));
  return (
    <Choice
      label="Model"
      value={value}
      choices={all === undefined ? choices : [{ value: "", word: all }, ...choices]}
      set={set}
    />
  );
}
