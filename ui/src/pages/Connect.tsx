/** What to paste into a client so that it speaks to this box. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/transport";
import type { ListRecipesResponse, Recipe } from "../gen/lmwarden/v1/system_service_pb";
import { type Call, useCall } from "../parts/call";
import { ModelChoice } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { info, models } from "../store";

/** The page. */
export function Connect() {
  useTitle("Connect");
  const url = info.value?.inferenceUrl;
  if (!url || models.value === undefined) return <Skeleton />;
  return <Known url={url} first={models.value.value[0]?.name} />;
}

function Known({ url, first }: { url: string; first: string | undefined }) {
  const [chosen, setChosen] = useState<string>();
  const model = chosen ?? first ?? "MODEL";
  const answer = useCall(model, (signal) => api().system.listRecipes({ model }, { signal }));
  return (
    <>
      <div class="top">
        <h1>Connect</h1>
        <code>{url}</code>
      </div>
      <p class="verdict">
        Clients speak to <b>{url}</b>, OpenAI's and Anthropic's way alike.
        {answer.value?.note === "" && " No key is asked for: any text will do in its place."}
        {first === undefined && (
          <>
            {" "}
            There is no model yet, so put its name in the place of {model}: <a href="/models">add one</a>.
          </>
        )}
      </p>
      <div class="filters">
        <ModelChoice value={model} set={setChosen} />
      </div>
      <Recipes answer={answer} />
    </>
  );
}

function Recipes({ answer }: { answer: Call<ListRecipesResponse> }) {
  if (answer.error !== undefined) return <Fault error={answer.error} retry={answer.again} />;
  if (answer.value === undefined) return <Skeleton />;
  const { note, recipes } = answer.value;
  return (
    <>
      {note !== "" && <p class="banner">{note}</p>}
      {recipes.length === 0 && <p class="empty">This daemon knows no client to write a recipe for.</p>}
      {recipes.map((recipe) => (
        <Panel key={recipe.client} title={recipe.title} beside={<small>{recipe.where}</small>}>
          <Paste recipe={recipe} />
        </Panel>
      ))}
    </>
  );
}

function Paste({ recipe }: { recipe: Recipe }) {
  const [word, setWord] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(recipe.text);
      setWord("Copied");
    } catch {
      // A browser may keep the clipboard shut, as it does for a page without the focus.
      setWord("Not copied: select the text");
    }
  };
  useEffect(() => {
    if (word === "Copy") return;
    const timer = setTimeout(() => setWord("Copy"), 2000);
    return () => clearTimeout(timer);
  }, [word]);
  return (
    <div class="paste">
      <pre>{recipe.text}</pre>
      {/* The clipboard is open only to pages over TLS or on this machine. */}
      {isSecureContext && (
        <button type="button" onClick={copy} aria-label={`Copy for ${recipe.title}`}>
          <span aria-live="polite">{word}</span>
        </button>
      )}
    </div>
  );
}
