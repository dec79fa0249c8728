/** The history of requests. It never holds content. */
import { useState } from "preact/hooks";
import { api } from "../api/transport";
import type { DecisionClass, RequestRecord } from "../gen/lmwarden/v1/routing_pb";
import { shortId } from "../lib/format";
import { decisionChoices } from "../lib/words";
import { useCall } from "../parts/call";
import { Choice, ModelChoice, useFilter } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { RequestsTable } from "../parts/RequestsTable";
import { useTitle } from "../parts/title";

const PAGE = 100;

const outcomes = [
  { value: "", word: "all" },
  { value: "failed", word: "failed" },
];

/** The page. */
export function Requests() {
  useTitle("Requests");
  const { query, set } = useFilter();
  const filter = {
    model: query.model ?? "",
    conversation: query.conversation ?? "",
    decision: Number(query.decision ?? 0) as DecisionClass,
    failed: query.outcome === "failed",
  };
  return (
    <>
      <div class="top">
        <h1>Requests</h1>
      </div>
      <p class="verdict">
        Where each request went, and why. The list holds figures only, never what was asked or answered.
      </p>
      <div class="filters">
        <ModelChoice value={filter.model} all="all" set={(model) => set({ model })} />
        <Choice
          label="Decision"
          value={query.decision ?? ""}
          choices={[
            { value: "", word: "all" },
            ...decisionChoices.map((c) => ({ value: String(c.value), word: c.word })),
          ]}
          set={(decision) => set({ decision })}
        />
        <Choice
          label="Outcome"
          value={query.outcome ?? ""}
          choices={outcomes}
          set={(outcome) => set({ outcome })}
        />
        {filter.conversation !== "" && (
          <button type="button" onClick={() => set({ conversation: "" })}>
            Not only conversation {shortId(filter.conversation)}
          </button>
        )}
      </div>
      <List key={JSON.stringify(filter)} filter={filter} />
    </>
  );
}

interface Filter {
  model: string;
  conversation: string;
  decision: DecisionClass;
  failed: boolean;
}

function List({ filter }: { filter: Filter }) {
  const [more, setMore] = useState<RequestRecord[]>([]);
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<unknown>();
  const first = useCall("first", async (signal) => {
    const page = await api().stats.listRequests({ ...filter, pageSize: PAGE }, { signal });
    setMore([]);
    setNext(page.nextPageToken);
    return page.requests;
  });
  const older = async () => {
    setError(undefined);
    try {
      const page = await api().stats.listRequests({ ...filter, pageSize: PAGE, pageToken: next ?? "" });
      setMore([...more, ...page.requests]);
      setNext(page.nextPageToken);
    } catch (e) {
      setError(e);
    }
  };
  const records = [...(first.value ?? []), ...more];
  return (
    <Panel
      title="Latest requests"
      end={
        <button type="button" disabled={first.busy} onClick={first.again}>
          Refresh
        </button>
      }
    >
      {first.error !== undefined && <Fault error={first.error} retry={first.again} />}
      {first.value === undefined && first.error === undefined && <Skeleton />}
      {first.value?.length === 0 && <p class="empty">No request matches.</p>}
      {records.length > 0 && <RequestsTable records={records} />}
      {error !== undefined && <Fault error={error} />}
      {next !== undefined && next !== "" && (
        <button type="button" onClick={older}>
          Show older ones
        </button>
      )}
    </Panel>
  );
}
