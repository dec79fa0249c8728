/** The conversations that the router remembers: list, one in detail, move, forget. */
import { useState } from "preact/hooks";
import { api } from "../api/transport";
import type { Conversation } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, count, plural, secondsSince, shortId, span } from "../lib/format";
import { conversationPath, replicaPath } from "../lib/paths";
import { type Call, useCall } from "../parts/call";
import { Confirm } from "../parts/Dialog";
import { ModelChoice, useFilter } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { RequestsTable } from "../parts/RequestsTable";
import { useTitle } from "../parts/title";
import { modelNamed, models, now } from "../store";

const PAGE = 200;

/** The page: of the model in the address, or of the first one. */
export function Conversations() {
  useTitle("Conversations");
  const { query, set } = useFilter();
  if (models.value === undefined) return <Skeleton />;
  const model = query.model ?? models.value.value[0]?.name ?? "";
  return (
    <>
      <div class="top">
        <h1>Conversations</h1>
      </div>
      <p class="verdict">
        A conversation stays on its home, the replica that holds its cache. Ids are hashes: nobody can read a
        client's key here.
      </p>
      {model === "" ? (
        <p class="empty">
          No model, no conversations. <a href="/models">Add a model</a>
        </p>
      ) : (
        <>
          <div class="filters">
            <ModelChoice value={model} set={(name) => set({ model: name, id: "" })} />
          </div>
          <OfModel key={model} model={model} id={query.id ?? ""} />
        </>
      )}
    </>
  );
}

function OfModel({ model, id }: { model: string; id: string }) {
  const [size, setSize] = useState(PAGE);
  const call = useCall(`${model} ${size}`, (signal) =>
    api().routing.listConversations({ model, pageSize: size }, { signal }),
  );
  const all = call.value?.conversations;
  const chosen = all?.find((c) => c.id === id);
  return (
    <>
      {id !== "" && all !== undefined && (
        <Detail model={model} id={id} conversation={chosen} again={call.again} />
      )}
      <Panel
        title="Remembered"
        end={
          <button type="button" disabled={call.busy} onClick={call.again}>
            Refresh
          </button>
        }
      >
        <Body model={model} call={call} conversations={all} />
        {call.value?.nextPageToken && size < 1000 && (
          <button type="button" onClick={() => setSize(1000)}>
            Show more
          </button>
        )}
      </Panel>
    </>
  );
}

function Body({
  model,
  call,
  conversations,
}: {
  model: string;
  call: Call<unknown>;
  conversations: readonly Conversation[] | undefined;
}) {
  if (call.error !== undefined) return <Fault error={call.error} retry={call.again} />;
  if (conversations === undefined) return <Skeleton />;
  if (conversations.length === 0)
    return <p class="empty">No conversation yet. The first turn of one makes it.</p>;
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Conversation</th>
            <th scope="col" class="text">
              Told by
            </th>
            <th scope="col">Home</th>
            <th scope="col">Context</th>
            <th scope="col">In cache</th>
            <th scope="col">Turns</th>
            <th scope="col">In flight</th>
            <th scope="col">Last active</th>
          </tr>
        </thead>
        <tbody>
          {conversations.map((c) => (
            <tr key={c.id}>
              <th scope="row">
                <a href={conversationPath(model, c.id)}>
                  <code>{shortId(c.id)}</code>
                </a>
                {c.subagent && <small> subagent</small>}
              </th>
              <td class="text">{c.keySource || "-"}</td>
              <td>{homeWords(c)}</td>
              <td class={c.contextTokens === undefined ? "absent" : ""}>{count(c.contextTokens)}</td>
              <td>{count(c.residentTokens)}</td>
              <td>{count(c.turns)}</td>
              <td>{count(c.inFlight)}</td>
              <td>{agoWords(c)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Where it is at home; who waits for its first place has no home yet. */
function homeWords(conversation: Conversation): string {
  const home = conversation.home === undefined ? "" : `${conversation.home}`;
  if (conversation.waiting) return home === "" ? "at the door" : `${home}, at the door`;
  return home === "" ? "none" : home;
}

function agoWords(conversation: Conversation): string {
  const ago = secondsSince(conversation.lastActive, now.value);
  return ago === undefined ? ABSENT : `${span(ago)} ago`;
}

interface DetailProps {
  model: string;
  id: string;
  conversation: Conversation | undefined;
  again: () => void;
}

function Detail({ model, id, conversation, again }: DetailProps) {
  const [asking, setAsking] = useState<"move" | "forget">();
  const history = useCall(`${model} ${id}`, (signal) =>
    api().stats.listRequests({ model, conversation: id, pageSize: 50 }, { signal }),
  );
  const close = () => setAsking(undefined);
  return (
    <Panel
      title={`Conversation ${shortId(id)}`}
      beside={<code>{id}</code>}
      end={
        conversation && (
          <>
            <button type="button" onClick={() => setAsking("move")}>
              Move…
            </button>
            <button type="button" onClick={() => setAsking("forget")}>
              Forget…
            </button>
          </>
        )
      }
    >
      <p class="small">{detailWords(model, conversation)}</p>
      {history.error !== undefined && <Fault error={history.error} retry={history.again} />}
      {history.value && history.value.requests.length > 0 && (
        <RequestsTable records={history.value.requests} />
      )}
      {asking === "move" && conversation && (
        <Move model={model} conversation={conversation} again={again} onClose={close} />
      )}
      {asking === "forget" && (
        <Confirm
          title={`Forget conversation ${shortId(id)}?`}
          verb="Forget"
          danger
          onClose={close}
          act={async () => {
            await api().routing.forgetConversation({ model, conversation: id });
            again();
          }}
        >
          Its next turn is placed anew, and may be read from the beginning.
        </Confirm>
      )}
    </Panel>
  );
}

function detailWords(model: string, conversation: Conversation | undefined): string {
  if (conversation === undefined) return `${model} does not remember it now, or it waits for its first home.`;
  const home = conversation.home === undefined ? "without a home" : `at home on replica ${conversation.home}`;
  const waits = conversation.waiting ? ", a turn waits at the door" : "";
  const flying = (conversation.inFlight > 0 ? ", a turn in flight" : "") + waits;
  return `${plural(conversation.turns, "turn")}, ${home}${flying}, last active ${agoWords(conversation)}.`;
}

function Move({
  model,
  conversation,
  again,
  onClose,
}: {
  model: string;
  conversation: Conversation;
  again: () => void;
  onClose: () => void;
}) {
  const replicas = modelNamed(model)?.status?.replicas ?? [];
  const others = replicas.filter((r) => r.index !== conversation.home);
  const [to, setTo] = useState(others[0]?.index ?? 0);
  return (
    <Confirm
      title={`Move conversation ${shortId(conversation.id)}?`}
      verb="Move"
      onClose={onClose}
      act={async () => {
        await api().routing.moveConversation({ model, conversation: conversation.id, replica: to });
        again();
      }}
    >
      <p>
        Its next turn goes to the new home and is read there from the beginning once. Requests in flight stay
        where they are, on{" "}
        <a href={replicaPath(model, conversation.home ?? 0)}>replica {conversation.home ?? "none"}</a>.
      </p>
      <label>
        New home{" "}
        <select value={to} onChange={(e) => setTo(Number(e.currentTarget.value))}>
          {others.map((r) => (
            <option key={r.index} value={r.index}>
              replica {r.index}
            </option>
          ))}
        </select>
      </label>
    </Confirm>
  );
}
