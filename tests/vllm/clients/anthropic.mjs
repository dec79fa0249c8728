// Streams one message with the Anthropic SDK and prints what it saw as JSON.
// Usage: node anthropic.mjs BASE_URL MODEL SESSION
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(`${process.env.LMWARDEN_CLIENTS}/package.json`);
const { default: Anthropic } = await import(pathToFileURL(require.resolve("@anthropic-ai/sdk")).href);

const [baseURL, model, session] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "unused", defaultHeaders: { "x-session-id": session } });
let events = 0;
let message = null;
let text = "";
// Random weights sometimes end the turn with their first token; another prompt does not.
for (let attempt = 1; attempt <= 12 && text === ""; attempt++) {
  const stream = client.messages.stream({
    model,
    max_tokens: 24,
    system: "You write Python.",
    messages: [{ role: "user", content: `Write line ${attempt} of a program in Python.` }],
  });
  events = 0;
  stream.on("streamEvent", () => events++);
  message = await stream.finalMessage();
  text = message.content.map((part) => part.text ?? "").join("");
}
console.log(JSON.stringify({ text, finish: message.stop_reason, usage: message.usage, events }));
