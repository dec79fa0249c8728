/** The list of models. */
import { useState } from "preact/hooks";
import { AddModel } from "../form/AddModel";
import { overviewVerdict } from "../lib/verdict";
import { Verdict } from "../parts/bits";
import { ModelsTable } from "../parts/ModelsTable";
import { Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { models, stats } from "../store";

/** The page. */
export function Models() {
  useTitle("Models");
  const [adding, setAdding] = useState(false);
  const all = models.value?.value;
  return (
    <>
      <div class="top">
        <h1>Models</h1>
        <span class="grow" />
        <button type="button" onClick={() => setAdding(true)}>
          Add a model…
        </button>
      </div>
      {all && <Verdict pieces={overviewVerdict(all, stats.value?.value)} />}
      <Panel title="All models" live>
        {all === undefined && <Skeleton />}
        {all?.length === 0 && (
          <p class="empty">
            No model yet. A model is a Hugging Face repository or a folder that the engine can serve; add one,
            and it is given cards and started.
          </p>
        )}
        {all && all.length > 0 && <ModelsTable models={all} />}
      </Panel>
      {adding && <AddModel onClose={() => setAdding(false)} />}
    </>
  );
}
