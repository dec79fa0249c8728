/** What to paste into a client so that it speaks to this box. */
import { useState } from "preact/hooks";
import { reachable, type Snippet, snippets } from "../lib/snippets";
import { ModelChoice } from "../parts/Filters";
import { Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { info, models } from "../store";

/** The page. */
export function Connect() {
  useTitle("Connect");
  const [chosen, setChosen] = useState<string>();
  const base = info.value?.inferenceUrl;
  if (!base || models.value === undefined) return <Skeleton />;
  const url = reachable(base, location.hostname);
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
      {snippets(url, model).map((snippet) => (
        <Panel key={snippet.client} title={snippet.client} beside={<small>{snippet.where}</small>}>
          <Paste snippet={snippet} />
        </Panel>
      ))}
    </>
  );
}

function Paste({ snippet }: { snippet: Snippet }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(snippet.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="paste">
      <pre>{snippet.text}</pre>
      {/* The clipboard is open only to pages over TLS or on this machine. */}
      {isSecureContext && (
        <button type="button" onClick={copy} aria-label={`Copy for ${snippet.client}`}>
          <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
        </button>
      )}
    </div>
  );
}
