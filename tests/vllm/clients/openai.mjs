// Streams one chat completion with the OpenAI SDK and prints what it saw as JSON.
// Usage: node openai.mjs BASE_URL MODEL SESSION
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(`${process.env.LMWARDEN_CLIENTS}/package.json`);
const { default: OpenAI } = await import(pathToFileURL(require.resolve("openai")).href);

const [baseURL, model, session] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "unused", defaultHeaders: { "x-session-id": session } });
const stream = await client.chat.completions.create({
  model,
  stream: true,
  stream_options: { include_usage: true },
  max_tokens: 24,
  // vLLM's own members, which the SDK passes on: random weights would end at once.
  ignore_eos: true,
  messages: [{ role: "user", content: "Write one line of Python." }],
});
let text = "";
let finish = null;
let usage = null;
let chunks = 0;
for await (const chunk of stream) {
  chunks++;
  text += chunk.choices[0]?.delta?.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
  usage = chunk.usage ?? usage;
}
console.log(JSON.stringify({ text, finish, usage, chunks }));
