// Streams one message with the Anthropic SDK and prints what it saw as JSON.
// Usage: node anthropic.mjs BASE_URL MODEL SESSION
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(`${process.env.LMWARDEN_CLIENTS}/package.json`);
const { default: Anthropic } = await import(pathToFileURL(require.resolve("@anthropic-ai/sdk")).href);

const [baseURL, model, session] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "unused", defaultHeaders: { "x-session-id": session } });
const stream = client.messages.stream({
  model,
  max_tokens: 64,
  system: "You write Python.",
  messages: [{ role: "user", content: "Write one line of Python." }],
});
let events = 0;
stream.on("streamEvent", () => events++);
const message = await stream.finalMessage();
const text = message.content.map((part) => part.text ?? "").join("");
console.log(JSON.stringify({ text, finish: message.stop_reason, usage: message.usage, events }));
