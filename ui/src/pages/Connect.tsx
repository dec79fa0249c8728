/** What to paste into a client so that it speaks to this box. */
import { useState } from "preact/hooks";
import { api } from "../api/transport";
import type { Recipe } from "../gen/lmwarden/v1/system_service_pb";
import { useCall } from "../parts/call";
import { ModelChoice } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { info, models } from "../store";

/** The page. */
export function Connect() {
  useTitle("Connect");
  const [chosen, setChosen] = useState<string>();
  const url = info.value?.inferenceUrl;
  if (!url || models.value === undefined) return <Skeleton />;
  const model = chosen ?? models.value.value[0]?.name ?? "MODEL";
  return (
    <>
      <div class="top">
        <h1>Connect</h1>
        <code>{url}</code>
      </div>
      <p class="verdict">
        Clients speak to <b>{url}</b>, OpenAI's and Anthropic's way alike. A key is asked for only when the
        daemon listens beyond this machine; until then any text will do.
      </p>
      <div class="filters">
        <ModelChoice value={model} set={setChosen} />
      </div>
      <Recipes model={model} />
    </>
  );
}

function Recipes({ model }: { model: string }) {
  const answer = useCall(model, (signal) => api().system.listRecipes({ model }, { signal }));
  if (answer.error !== undefined) return <Fault error={answer.error} retry={answer.again} />;
  if (answer.value === undefined) return <Skeleton />;
  const { note, recipes } = answer.value;
  return (
    <>
      {note !== "" && <p class="banner">{note}</p>}
      {recipes.map((recipe) => (
        <Panel key={recipe.client} title={recipe.title} beside={<small>{recipe.where}</small>}>
          <Paste recipe={recipe} />
        </Panel>
      ))}
    </>
  );
}

function Paste({ recipe }: { recipe: Recipe }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(recipe.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="paste">
      <pre>{recipe.text}</pre>
      {/* The clipboard is open only to pages over TLS or on this machine. */}
      {isSecureContext && (
        <button type="button" onClick={copy} aria-label={`Copy for ${recipe.title}`}>
          <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
        </button>
      )}
    </div>
  );
}
