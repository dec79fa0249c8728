/** Clients whose prompts do not continue each other, so that no cache helps them. */
import type { PrefixBreak } from "../gen/lmwarden/v1/routing_pb";
import { PrefixCulprit } from "../gen/lmwarden/v1/routing_pb";
import { conversationPath } from "../lib/paths";
import { Pill } from "./bits";
import { Panel } from "./Panel";

const words: Record<PrefixCulprit, string> = {
  [PrefixCulprit.UNSPECIFIED]: "system text",
  [PrefixCulprit.ATTRIBUTION]: "attribution block",
  [PrefixCulprit.CLOCK]: "clock",
  [PrefixCulprit.TOOL_ORDER]: "tools reordered",
  [PrefixCulprit.TOOLS]: "tools changed",
  [PrefixCulprit.REMINDER]: "reminder moved",
  [PrefixCulprit.HISTORY]: "history rewritten",
};

/** The panel; nothing when no client breaks its prefix. */
export function PrefixBreaksPanel({ model, breaks }: { model: string; breaks: readonly PrefixBreak[] }) {
  if (breaks.length === 0) return null;
  return (
    <Panel title="Prompts that break their own prefix" live>
      <ul class="attention">
        {breaks.map((b) => (
          <li key={`${b.client} ${b.culprit}`}>
            <Pill tone="warn">
              <b>{words[b.culprit]}</b>
            </Pill>{" "}
            {b.message}{" "}
            {b.conversation !== "" && <a href={conversationPath(model, b.conversation)}>Conversation</a>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
