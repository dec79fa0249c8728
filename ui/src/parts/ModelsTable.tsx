/** The table of models, on the overview and on the models page. */
import type { Model } from "../gen/lmwarden/v1/model_pb";
import { ABSENT, count, seconds, share } from "../lib/format";
import { modelPath } from "../lib/paths";
import { fitWord, modelWord, replicaWord } from "../lib/words";
import { Dot, Meter } from "./bits";

/** Most replicas shown as single dots. */
const DOTS = 8;

/** One row a model. */
export function ModelsTable({ models }: { models: readonly Model[] }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col" class="text">
              State
            </th>
            <th scope="col" class="text">
              Replicas
            </th>
            <th scope="col" class="text">
              Fit
            </th>
            <th scope="col">Conversations</th>
            <th scope="col">Prefix hits, 1 h</th>
            <th scope="col">First token p50</th>
            <th scope="col">Output tok/s</th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <Row key={model.name} model={model} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ model }: { model: Model }) {
  const status = model.status;
  return (
    <tr>
      <th scope="row">
        <a href={modelPath(model.name)}>{model.name}</a>
      </th>
      <td class="text">{modelWord(status?.state).word}</td>
      <td class="text">
        <Replicas model={model} />
      </td>
      <td class="text">
        <FitCell model={model} />
      </td>
      <td>{count(status?.activeConversations)}</td>
      <Figure text={share(status?.hitRateHour)} />
      <Figure text={seconds(status?.firstTokenP50Seconds)} />
      <td>{count(status?.completionTokensPerSecond)}</td>
    </tr>
  );
}

function Figure({ text }: { text: string }) {
  return <td class={text === ABSENT ? "absent" : ""}>{text}</td>;
}

function Replicas({ model }: { model: Model }) {
  const replicas = model.status?.replicas ?? [];
  if (replicas.length === 0) return <small>{count(model.spec?.replicas)} wanted</small>;
  return (
    <>
      {replicas.slice(0, DOTS).map((replica) => (
        <>
          <Dot key={replica.index} {...replicaWord(replica.state)} />{" "}
        </>
      ))}
      {replicas.length > DOTS && <small>{count(replicas.length - DOTS)} more</small>}
    </>
  );
}

function FitCell({ model }: { model: Model }) {
  const status = model.status;
  if (status?.message) return <small>{status.message}</small>;
  const fit = fitWord(status?.fit);
  if (fit === undefined || status?.fill === undefined) return <span class="small">{ABSENT}</span>;
  return (
    <>
      <Meter wide value={status.fill} tone={fit.tone} />
      {share(status.fill, 0)} {fit.word}
    </>
  );
}
