// What the OpenAI SDK for Node makes of the engines' answers, as one line of JSON.
// Usage: node openai.mjs BASE_URL MODEL SESSION
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(`${process.env.LMWARDEN_CLIENTS}/package.json`);
const { default: OpenAI } = await import(pathToFileURL(require.resolve("openai")).href);

const [baseURL, model, session] = process.argv.slice(2);
const options = { baseURL: `${baseURL}/v1`, apiKey: "unused" };
const plain = new OpenAI(options);
const named = new OpenAI({ ...options, defaultHeaders: { "x-session-id": session } });
const hasty = new OpenAI({ ...options, timeout: 400, maxRetries: 1, defaultHeaders: { "x-session-id": session } });
const user = (content) => ({ role: "user", content });
const seen = {};

// A conversation with a tool, from a client that names no conversation.
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];
const messages = [{ role: "system", content: "You know the weather." }, user("WEATHER in Zürich?")];
const first = plain.chat.completions.stream({ model, messages, tools });
const call = (await first.finalChatCompletion()).choices[0].message;
seen.call = { name: call.tool_calls[0].function.name, arguments: JSON.parse(call.tool_calls[0].function.arguments) };
messages.push(call, { role: "tool", tool_call_id: call.tool_calls[0].id, content: "it is sunny" });
let usage = null;
let text = "";
for await (const chunk of await plain.chat.completions.create({ model, messages, tools, stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
seen.text = text;
seen.usage = [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens];

// Whole, and streamed by a client that does not want the usage.
seen.whole = (await named.chat.completions.create({ model, messages: [user("hello")] })).choices[0].message.content;
seen.unasked = 0;
for await (const chunk of await named.chat.completions.create({ model, messages: [user("hello")], stream: true })) {
  if (chunk.usage || chunk.choices.length === 0) seen.unasked++;
}
seen.response = (await named.responses.create({ model, input: "hello" })).output_text;
const events = await named.responses.create({ model, input: "hello", stream: true });
for await (const event of events) if (event.type === "response.completed") seen.streamed = event.response.status;

// An engine's own refusal, a time-out with one retry, and a reader that leaves.
const fault = await named.chat.completions.create({ model, messages: [user("BAD")] }).catch((e) => e);
seen.fault = [fault.status, fault.error?.message ?? String(fault)];
// Busy and failing once: the SDK tries again by itself. A stream that is cut is an error.
seen.again = (await named.chat.completions.create({ model, messages: [user("BUSY")] })).choices[0].message.content;
seen.recovered = (await named.responses.create({ model, input: "FAILING" })).output_text;
seen.cut = ["", false];
try {
  for await (const chunk of await named.chat.completions.create({ model, messages: [user("CUT")], stream: true })) seen.cut[0] += chunk.choices[0].delta.content;
} catch (e) {
  seen.cut[1] = e instanceof OpenAI.APIError || e instanceof TypeError;
}
const late = await hasty.chat.completions.create({ model, messages: [user("SILENT")] }).catch((e) => e);
seen.late = late instanceof OpenAI.APIConnectionTimeoutError;
const half = await named.chat.completions.create({ model, messages: [user("HALF")], stream: true });
seen.half = "";
for await (const chunk of half) {
  seen.half += chunk.choices[0].delta.content;
  if (seen.half !== "") break;
}
const cancel = new AbortController();
const aborted = await named.chat.completions.create({ model, messages: [user("HALF")], stream: true }, { signal: cancel.signal });
seen.aborted = "";
for await (const chunk of aborted) {
  seen.aborted += chunk.choices[0].delta.content;
  if (seen.aborted !== "") cancel.abort();
}
console.log(JSON.stringify(seen));
