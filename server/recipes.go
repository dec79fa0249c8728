package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// Keys of a recipe when none was given: any text will do, or one is needed.
const (
	anyKey  = "lmwarden"
	yourKey = "YOUR_KEY"
)

// recipeForms are what to paste, by client. Values of shells, TOML, JSON and Python are
// quoted by the functions of the same names.
var recipeForms = []struct{ client, title, where, form string }{
	{
		"claude-code", "Claude Code", "in the shell that starts Claude Code", `export ANTHROPIC_BASE_URL={{shell .URL}}
export ANTHROPIC_AUTH_TOKEN={{shell .Key}}
export ANTHROPIC_MODEL={{shell .Model}}
export ANTHROPIC_DEFAULT_OPUS_MODEL={{shell .Model}}
export ANTHROPIC_DEFAULT_SONNET_MODEL={{shell .Model}}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={{shell .Model}}
# lets the router tell main turns from side calls
export CLAUDE_CODE_GATEWAY_HINT_HEADERS=1
claude`,
	},
	{
		"codex", "Codex", "in ~/.codex/config.toml", `model = {{quoted .Model}}
model_provider = "lmwarden"

[model_providers.lmwarden]
name = "LM Warden"
base_url = {{quoted .API}}
wire_api = "responses"
env_key = "LMWARDEN_KEY"

# in the shell that starts Codex
# export LMWARDEN_KEY={{shell .Key}}`,
	},
	{
		"opencode", "OpenCode", "in opencode.json", `{
  "$schema": "https://opencode.ai/config.json",
  "model": {{quoted .ProviderModel}},
  "provider": {
    "lmwarden": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "LM Warden",
      "options": { "baseURL": {{quoted .API}}, "apiKey": {{quoted .Key}} },
      "models": { {{quoted .Model}}: { "name": {{quoted .Model}} } }
    }
  }
}`,
	},
	{
		"openai", "Clients of the OpenAI API", "in the shell that starts the client", `export OPENAI_BASE_URL={{shell .API}}
export OPENAI_API_KEY={{shell .Key}}
export OPENAI_MODEL={{shell .Model}}`,
	},
	{
		"python", "OpenAI SDK", "in Python; a session id keeps the conversation on its replica", `from openai import OpenAI

client = OpenAI(base_url={{quoted .API}}, api_key={{quoted .Key}})
answer = client.chat.completions.create(
    model={{quoted .Model}},
    messages=[{"role": "user", "content": "Hello"}],
    extra_headers={"x-session-id": "one-id-per-conversation"},
)
print(answer.choices[0].message.content)`,
	},
}

// recipeValues is what a recipe is filled with.
type recipeValues struct {
	URL           string // of the inference listener, without a path
	API           string // the same with the path of the OpenAI API
	Model         string
	ProviderModel string // as OpenCode names it
	Key           string
}

// recipes returns what to paste into each client.
func recipes(v recipeValues) ([]*lmwardenv1.Recipe, error) {
	var out []*lmwardenv1.Recipe
	for _, r := range recipeForms {
		form, err := template.New(r.client).Funcs(template.FuncMap{"shell": shellWord, "quoted": quotedText}).Parse(r.form)
		if err != nil {
			return nil, fmt.Errorf("the recipe for %s cannot be read: %w", r.client, err)
		}
		var text bytes.Buffer
		if err := form.Execute(&text, v); err != nil {
			return nil, fmt.Errorf("the recipe for %s cannot be filled: %w", r.client, err)
		}
		out = append(out, &lmwardenv1.Recipe{Client: r.client, Title: r.title, Where: r.where, Text: text.String()})
	}
	return out, nil
}

// shellWord returns a text as one word of a shell: as it stands where it may.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=[]"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// quotedText returns a text in the quotes that JSON, TOML and Python share.
func quotedText(text string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// ListRecipes returns what to paste into each client.
func (s systemService) ListRecipes(_ context.Context, req *lmwardenv1.ListRecipesRequest) (*lmwardenv1.ListRecipesResponse, error) {
	url := s.info.GetInferenceUrl()
	v := recipeValues{URL: url, API: url + "/v1", Model: req.GetModel(), ProviderModel: "lmwarden/" + req.GetModel(), Key: req.GetKey()}
	out := &lmwardenv1.ListRecipesResponse{}
	if v.Key == "" {
		v.Key = anyKey
		if s.asksForKey() {
			v.Key = yourKey
			out.Note = "This daemon asks for a key: put one of its inference_auth.keys_file in place of " + yourKey + "."
		}
	}
	var err error
	out.Recipes, err = recipes(v)
	return out, err
}

// asksForKey says whether the inference endpoint asks for a key.
func (c *control) asksForKey() bool { return c.cfg.GetInferenceAuth().GetKeysFile() != "" }
