/** Long lists show their beginning and say how much is left; a click shows the rest. */
import { useState } from "preact/hooks";
import { count } from "../lib/format";

/** Most rows shown before the rest folds into "48 more". */
export const UNFOLDED = 16;

/** Returns the rows to show and the button that shows the rest, if there is a rest. */
export function useFold<T>(rows: readonly T[], limit = UNFOLDED) {
  const [open, setOpen] = useState(false);
  // One row is not worth a button of the same height.
  const hidden = open || rows.length <= limit + 1 ? 0 : rows.length - limit;
  const more =
    hidden === 0 ? undefined : (
      <p>
        <button type="button" class="plain" onClick={() => setOpen(true)}>
          {count(hidden)} more
        </button>
      </p>
    );
  return { shown: hidden === 0 ? rows : rows.slice(0, limit), more };
}
