/** What to paste into each client, with this box's address and a model's name. Pure. */

/** One client's recipe. */
export interface Snippet {
  client: string;
  /** Where the text goes. */
  where: string;
  text: string;
}

/** Stands where the reader's own key goes. */
const KEY = "YOUR_KEY";

/**
 * Returns the address that a reader on another machine can use: a listener on every
 * interface is reached under the name under which the page was.
 */
export function reachable(base: string, pageHost: string): string {
  const url = new URL(base);
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") url.hostname = pageHost;
  return url.origin;
}

/**
 * Returns the recipes. `base` is the address of the inference listener without a path;
 * `model` is a name that the box serves.
 */
export function snippets(base: string, model: string): Snippet[] {
  const url = base.replace(/\/+$/, "");
  return [
    {
      client: "Claude Code",
      where: "in the shell, before you start it",
      text: [
        `export ANTHROPIC_BASE_URL=${url}`,
        `export ANTHROPIC_AUTH_TOKEN=${KEY}`,
        `export ANTHROPIC_MODEL=${model}`,
        `export ANTHROPIC_DEFAULT_OPUS_MODEL=${model}`,
        `export ANTHROPIC_DEFAULT_SONNET_MODEL=${model}`,
        `export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}`,
        "# lets the router tell main turns from side calls",
        "export CLAUDE_CODE_GATEWAY_HINT_HEADERS=1",
        "claude",
      ].join("\n"),
    },
    {
      client: "Codex",
      where: "in ~/.codex/config.toml, with LMWARDEN_KEY in the environment",
      text: [
        `model = "${model}"`,
        'model_provider = "lmwarden"',
        "",
        "[model_providers.lmwarden]",
        'name = "LM Warden"',
        `base_url = "${url}/v1"`,
        'wire_api = "responses"',
        'env_key = "LMWARDEN_KEY"',
      ].join("\n"),
    },
    {
      client: "OpenCode",
      where: "in opencode.json",
      text: JSON.stringify(
        {
          $schema: "https://opencode.ai/config.json",
          model: `lmwarden/${model}`,
          provider: {
            lmwarden: {
              npm: "@ai-sdk/openai-compatible",
              name: "LM Warden",
              options: { baseURL: `${url}/v1`, apiKey: KEY },
              models: { [model]: {} },
            },
          },
        },
        undefined,
        2,
      ),
    },
    {
      client: "OpenAI SDK",
      where: "in Python; a session id keeps the conversation on its replica",
      text: [
        "from openai import OpenAI",
        "",
        `client = OpenAI(base_url="${url}/v1", api_key="${KEY}")`,
        "answer = client.chat.completions.create(",
        `    model="${model}",`,
        '    messages=[{"role": "user", "content": "Hello"}],',
        '    extra_headers={"x-session-id": "one-id-per-conversation"},',
        ")",
        "print(answer.choices[0].message.content)",
      ].join("\n"),
    },
  ];
}
