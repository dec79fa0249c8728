/** Start, stop, restart and delete a model, each asked for first where it costs something. */

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { problem } from "../api/errors";
import { api } from "../api/transport";
import { type Model, ModelState } from "../gen/lmwarden/v1/model_pb";
import { plural } from "../lib/format";
import { Confirm } from "../parts/Dialog";
import { restartAll, rolling } from "../rolling";

type Asking = "restart" | "stop" | "delete" | undefined;

/** The buttons at the top of a model's page. */
export function ModelActions({ model }: { model: Model }) {
  const [asking, setAsking] = useState<Asking>();
  const [error, setError] = useState<unknown>();
  const { name } = model;
  const broken = model.status?.state === ModelState.BROKEN;
  const start = async () => {
    setError(undefined);
    try {
      await api().models.startModel({ name });
    } catch (e) {
      setError(e);
    }
  };
  return (
    <span class="actions">
      {error !== undefined && (
        <span class="fault" role="alert">
          {problem(error).sentence}
        </span>
      )}
      {model.running ? (
        <>
          <button
            type="button"
            disabled={rolling.value?.kind === "under way"}
            onClick={() => setAsking("restart")}
          >
            Restart…
          </button>
          <button type="button" onClick={() => setAsking("stop")}>
            Stop…
          </button>
        </>
      ) : (
        <>
          {!broken && (
            <button type="button" onClick={start}>
              Start
            </button>
          )}
          {model.declaredIn === "" && (
            <button type="button" onClick={() => setAsking("delete")}>
              Delete…
            </button>
          )}
        </>
      )}
      <Question model={model} asking={asking} onClose={() => setAsking(undefined)} />
    </span>
  );
}

function Question({ model, asking, onClose }: { model: Model; asking: Asking; onClose: () => void }) {
  const { route } = useLocation();
  const { name } = model;
  const inFlight = model.status?.inFlight ?? 0;
  const flying = inFlight === 0 ? "" : ` ${plural(inFlight, "request")} in flight will be finished first.`;
  switch (asking) {
    case "restart":
      return (
        <Confirm
          title={`Restart ${name}?`}
          verb="Restart"
          onClose={onClose}
          act={async () => {
            void restartAll(name);
          }}
        >
          Each replica finishes what it has, ends, and starts again with an empty cache; the next one follows
          when it is ready. Their conversations find a new home meanwhile. Keep this page open until it is
          done.{flying}
        </Confirm>
      );
    case "stop":
      return (
        <Confirm
          title={`Stop ${name}?`}
          verb="Stop"
          danger
          onClose={onClose}
          act={() => api().models.stopModel({ name })}
        >
          Its cards become free and its caches are lost; clients that ask for it are refused.{flying}
        </Confirm>
      );
    case "delete":
      return (
        <Confirm
          title={`Delete ${name}?`}
          verb="Delete"
          danger
          onClose={onClose}
          act={async () => {
            await api().models.deleteModel({ name, revision: model.revision });
            route("/models");
          }}
        >
          Its settings are forgotten. The model's files stay where they are.
        </Confirm>
      );
    default:
      return null;
  }
}

/** How the rolling restart of a model goes, while there is one. */
export function RollingNotice({ name }: { name: string }) {
  const state = rolling.value;
  if (state === undefined || state.model !== name) return null;
  if (state.kind === "stopped") {
    return (
      <p class="banner bad" role="alert">
        {state.sentence}
      </p>
    );
  }
  return (
    <p class="banner" role="status">
      Restarting replica {state.replica}; {state.done} of {state.of} are done. Keep this page open: the rest
      is left as it is when you close it.
    </p>
  );
}
