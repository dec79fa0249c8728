/** The page of a model: the sentence, the map, the routing card, figures, settings. */

import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { api } from "../api/transport";
import { TokensPanel } from "../chart/TokensPanel";
import { SettingsForm } from "../form/SettingsForm";
import { type Model, ModelSpecSchema, ModelState } from "../gen/lmwarden/v1/model_pb";
import { RoutingSettingsSchema } from "../gen/lmwarden/v1/routing_pb";
import { count, plural } from "../lib/format";
import { modelVerdict } from "../lib/verdict";
import { modelWord } from "../lib/words";
import { CacheMapPanel } from "../map/CacheMap";
import { StatePill, Verdict } from "../parts/bits";
import { Decisions } from "../parts/Decisions";
import { LearnedPanel } from "../parts/Learned";
import { Panel, Skeleton } from "../parts/Panel";
import { PrefixBreaksPanel } from "../parts/PrefixBreaks";
import { RoutingCardPanel } from "../parts/RoutingCard";
import { useTitle } from "../parts/title";
import { modelNamed, models, routing } from "../store";
import { ModelActions, RollingNotice } from "./ModelActions";

/** The page. */
export function ModelPage() {
  const name = useRoute().params.name ?? "";
  useTitle(name);
  const model = modelNamed(name);
  if (models.value === undefined) return <Skeleton />;
  if (model === undefined) return <Unknown name={name} />;
  return <Known key={name} model={model} />;
}

function Unknown({ name }: { name: string }) {
  const names = models.value?.value.map((m) => m.name) ?? [];
  return (
    <>
      <div class="top">
        <h1>{name}</h1>
      </div>
      <p class="verdict">
        There is no model of this name. {names.length > 0 ? `There are: ${names.join(", ")}. ` : ""}
        <a href="/models">All models</a>
      </p>
    </>
  );
}

function Known({ model }: { model: Model }) {
  const received = routing.value?.value.model === model.name ? routing.value : undefined;
  const card = received?.value;
  const empty = received?.value.replicas.length === 0;
  return (
    <>
      <div class="top">
        <h1>{model.name}</h1>
        <StatePill {...modelWord(model.status?.state)} />
        <span class="small">{subtitle(model)}</span>
        <span class="grow" />
        <ModelActions model={model} />
      </div>
      <RollingNotice name={model.name} />
      <Verdict pieces={modelVerdict(model, card)} />
      {received === undefined
        ? model.running && (
            <Panel title="What each cache holds">
              <Skeleton />
            </Panel>
          )
        : !empty && (
            <>
              <CacheMapPanel card={received.value} at={received.at} />
              <RoutingCardPanel card={received.value} at={received.at} />
              <PrefixBreaksPanel model={model.name} breaks={received.value.prefixBreaks} />
            </>
          )}
      <div class="two">
        <TokensPanel />
        <Decisions model={model.name} records={card?.latest} />
      </div>
      {card?.learned !== undefined && !empty && <LearnedPanel learned={card.learned} />}
      {model.status?.state !== ModelState.BROKEN && <Forms model={model} />}
    </>
  );
}

/** 4 replicas × 1 card · fp8 · 32,768 tokens · vLLM 0.32.0 */
function subtitle(model: Model): string {
  const { spec, status } = model;
  const replicas = status?.replicas.length || spec?.replicas || 0;
  const cards = status?.replicas[0]?.gpus.length || spec?.tensorParallelSize || 1;
  const parts = [replicas > 0 ? `${plural(replicas, "replica")} × ${plural(cards, "card")}` : ""];
  if (spec?.source && spec.source !== model.name) parts.push(spec.source);
  const length = status?.maxModelLen ?? spec?.maxModelLen;
  if (length !== undefined) parts.push(plural(length, "token"));
  if (status?.engineVersion) parts.push(`vLLM ${status.engineVersion}`);
  const aliases = spec?.aliases.length ?? 0;
  if (aliases > 0) parts.push(`${count(aliases)} other ${aliases === 1 ? "name" : "names"}`);
  return parts.filter((part) => part !== "").join(" · ");
}

function Forms({ model }: { model: Model }) {
  const [engine, setEngine] = useState(false);
  const name = model.name;
  const card = routing.value?.value.model === name ? routing.value.value : undefined;
  const declared = model.declaredIn === "" ? "" : `declared in ${model.declaredIn}; change it there`;
  const reloadCard = async () => {
    const { card: fresh } = await api().routing.getRouting({ model: name });
    if (fresh !== undefined) routing.value = { value: fresh, at: Date.now() };
  };
  const reloadModel = async () => {
    const { model: fresh } = await api().models.getModel({ name });
    if (fresh !== undefined) putModel(fresh);
  };
  return (
    <>
      <SettingsForm
        title="Routing settings"
        schema={RoutingSettingsSchema}
        current={card?.settings ?? model.routing}
        revision={card?.revision ?? model.revision}
        readOnly={declared}
        reload={reloadCard}
        save={async ({ message, names, revision }) => {
          const answer = await api().routing.updateRouting({
            model: name,
            settings: message,
            updateMask: { paths: names },
            revision,
          });
          if (answer.card !== undefined) routing.value = { value: answer.card, at: Date.now() };
        }}
      />
      {engine ? (
        <SettingsForm
          title="Engine settings"
          schema={ModelSpecSchema}
          current={model.spec}
          revision={model.revision}
          readOnly={declared}
          reload={reloadModel}
          save={async ({ message, names, revision }) => {
            const answer = await api().models.updateModel({
              name,
              spec: message,
              updateMask: { paths: names },
              revision,
            });
            if (answer.model !== undefined) putModel(answer.model);
          }}
        />
      ) : (
        <p>
          <button type="button" class="plain" aria-expanded={false} onClick={() => setEngine(true)}>
            Show the engine's settings
          </button>{" "}
          <small>most of them restart the replicas, one by one</small>
        </p>
      )}
    </>
  );
}

/** Puts an answered model in its place before the stream sends it. */
function putModel(fresh: Model): void {
  const known = models.value?.value ?? [];
  models.value = { value: known.map((m) => (m.name === fresh.name ? fresh : m)), at: Date.now() };
}
