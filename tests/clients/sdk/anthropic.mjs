// What the Anthropic SDK for Node makes of the engines' answers, as one line of JSON.
// Usage: node anthropic.mjs BASE_URL MODEL SESSION
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(`${process.env.LMWARDEN_CLIENTS}/package.json`);
const { default: Anthropic } = await import(pathToFileURL(require.resolve("@anthropic-ai/sdk")).href);

const [baseURL, model, session] = process.argv.slice(2);
const options = { baseURL, apiKey: "unused" };
const plain = new Anthropic(options);
const named = new Anthropic({ ...options, defaultHeaders: { "x-session-id": session } });
const hasty = new Anthropic({ ...options, timeout: 400, maxRetries: 1, defaultHeaders: { "x-session-id": session } });
const ask = (content) => ({ model, max_tokens: 64, messages: [{ role: "user", content }] });
const seen = {};

// A conversation with a tool, from a client that names no conversation.
const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const turn = { ...ask("WEATHER in Zürich?"), system: "You know the weather.", tools };
const call = await plain.messages.stream(turn).finalMessage();
const use = call.content.find((block) => block.type === "tool_use");
seen.call = { name: use.name, arguments: use.input };
turn.messages.push(
  { role: "assistant", content: call.content },
  { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "it is sunny" }] },
);
const second = await plain.messages.stream(turn).finalMessage();
seen.text = second.content[0].text;
seen.usage = [second.usage.input_tokens + second.usage.cache_read_input_tokens, second.usage.cache_read_input_tokens, second.usage.output_tokens];

seen.whole = (await named.messages.create(ask("hello"))).content[0].text;
seen.counted = (await named.messages.countTokens({ model, messages: ask("hello").messages })).input_tokens;

// An engine's own refusal, a time-out with one retry, and a reader that leaves.
const fault = await named.messages.create(ask("BAD")).catch((e) => e);
seen.fault = [fault.status, fault.error?.error?.message ?? String(fault)];
// Busy and overloaded once: the SDK tries again by itself. A stream that is cut is an error.
seen.again = (await named.messages.create(ask("BUSY"))).content[0].text;
seen.recovered = (await named.messages.create(ask("FAILING"))).content[0].text;
seen.cut = ["", false];
try {
  for await (const event of await named.messages.create({ ...ask("CUT"), stream: true })) seen.cut[0] += event.delta?.text ?? "";
} catch (e) {
  seen.cut[1] = e instanceof Anthropic.APIError || e instanceof TypeError;
}
const late = await hasty.messages.create(ask("SILENT")).catch((e) => e);
seen.late = late instanceof Anthropic.APIConnectionTimeoutError;
seen.half = "";
for await (const event of await named.messages.create({ ...ask("HALF"), stream: true })) {
  if (event.type !== "content_block_delta") continue;
  seen.half = event.delta.text;
  break;
}
const cancel = new AbortController();
seen.aborted = "";
for await (const event of await named.messages.create({ ...ask("HALF"), stream: true }, { signal: cancel.signal })) {
  seen.aborted += event.delta?.text ?? "";
  if (seen.aborted !== "") cancel.abort();
}
console.log(JSON.stringify(seen));
