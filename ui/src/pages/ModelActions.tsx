/** Start, stop, restart and delete a model, each asked for first where it costs something. */

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { problem } from "../api/errors";
import { api } from "../api/transport";
import { type Model, ModelState } from "../gen/lmwarden/v1/model_pb";
import { plural } from "../lib/format";
import { Confirm } from "../parts/Dialog";

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
          <button type="button" onClick={() => setAsking("restart")}>
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
        <Confirm title={`Restart ${name}?`} verb="Restart" onClose={onClose} act={() => restartAll(model)}>
          Each replica finishes what it has, ends, and starts again with an empty cache, one after the other.
          Their conversations find a new home meanwhile.{flying}
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

/** Asks for every replica's restart, in order; the daemon drains each before it ends it. */
async function restartAll(model: Model): Promise<void> {
  for (const replica of model.status?.replicas ?? []) {
    await api().replicas.restartReplica({ model: model.name, index: replica.index });
  }
}
