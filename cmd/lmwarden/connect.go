package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// recipes are what to paste, by client. URL has no path; Key is what to put where a
// client insists on a key.
var recipes = map[string]string{
	"claude-code": `# in the shell that starts Claude Code
{{.Note}}export ANTHROPIC_BASE_URL={{.URL}}
export ANTHROPIC_AUTH_TOKEN={{.Key}}
export ANTHROPIC_MODEL={{.Model}}
export ANTHROPIC_DEFAULT_OPUS_MODEL={{.Model}}
export ANTHROPIC_DEFAULT_SONNET_MODEL={{.Model}}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={{.Model}}
# lets the router tell main turns from side calls
export CLAUDE_CODE_GATEWAY_HINT_HEADERS=1
claude
`,
	"codex": `{{.Note}}# in ~/.codex/config.toml
model = "{{.Model}}"
model_provider = "lmwarden"

[model_providers.lmwarden]
name = "LM Warden"
base_url = "{{.URL}}/v1"
wire_api = "responses"
env_key = "LMWARDEN_KEY"

# in the shell that starts Codex
# export LMWARDEN_KEY={{.Key}}
`,
	"opencode": `{
  "$schema": "https://opencode.ai/config.json",
  "model": "lmwarden/{{.Model}}",
  "provider": {
    "lmwarden": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "LM Warden",
      "options": { "baseURL": "{{.URL}}/v1", "apiKey": "{{.Key}}" },
      "models": { "{{.Model}}": { "name": "{{.Model}}" } }
    }
  }
}
`,
	"openai": `{{.Note}}# for clients and SDKs of the OpenAI API
export OPENAI_BASE_URL={{.URL}}/v1
export OPENAI_API_KEY={{.Key}}
export OPENAI_MODEL={{.Model}}
`,
}

// recipe is what a recipe is filled with. Note is a comment that must be heeded, with its
// line end, or empty.
type recipe struct{ URL, Model, Key, Note string }

// Keys of a recipe when none was given: any text will do, or one is needed.
const (
	anyKey  = "lmwarden"
	yourKey = "YOUR_KEY"
)

// recipeNames returns the clients that there are recipes for.
func recipeNames() []string { return []string{"claude-code", "codex", "opencode", "openai"} }

func (a *app) connectCommand() *cobra.Command {
	var model, key string
	c := &cobra.Command{
		Use:       "connect " + strings.Join(recipeNames(), "|"),
		Short:     "Print what to paste so that a coding agent uses this box, always as plain text",
		Args:      arguments("CLIENT"),
		ValidArgs: recipeNames(),
		RunE: func(c *cobra.Command, args []string) error {
			text, ok := recipes[args[0]]
			if !ok {
				return usageErrorf("there is no recipe for %q; choose from %s", args[0], strings.Join(recipeNames(), ", "))
			}
			cs, err := a.dial()
			if err != nil {
				return err
			}
			info, err := cs.system.GetInfo(c.Context(), &lmwardenv1.GetInfoRequest{})
			if err != nil {
				return err
			}
			if model, err = a.chooseModel(c.Context(), cs, model); err != nil {
				return err
			}
			filled := recipe{URL: reachableURL(info.GetInfo().GetInferenceUrl(), a.addr), Model: model, Key: or(key, anyKey)}
			if key == "" && info.GetInfo().GetAsksForKey() {
				filled.Key, filled.Note = yourKey, "# this daemon asks for a key: put one of its inference_auth.keys_file in place of "+yourKey+"\n"
				fmt.Fprintf(a.err, "This daemon asks for a key: put one of its inference_auth.keys_file in place of %s, or pass it with --key.\n", yourKey)
			}
			return template.Must(template.New(args[0]).Parse(text)).Execute(a.out, filled)
		},
	}
	c.Flags().StringVar(&model, "model", "", "model to use; not needed when there is only one")
	c.Flags().StringVar(&key, "key", "", "API key to print; not needed when the daemon asks for none")
	return c
}

// chooseModel returns the wanted model, or the only one there is.
func (a *app) chooseModel(ctx context.Context, cs *clients, wanted string) (string, error) {
	list, err := cs.models.ListModels(ctx, &lmwardenv1.ListModelsRequest{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, m := range list.GetModels() {
		names = append(names, m.GetName())
	}
	switch {
	case len(names) == 0:
		return "", &codeError{exitNotFound, fmt.Errorf("there is no model yet; make one with \"lmwarden model add\"")}
	case wanted == "" && len(names) == 1:
		return names[0], nil
	case wanted == "":
		return "", usageErrorf("there are several models; choose with --model from %s", strings.Join(names, ", "))
	case !slices.Contains(names, wanted):
		return "", &codeError{exitNotFound, fmt.Errorf("there is no model %q; there are %s", wanted, strings.Join(names, ", "))}
	}
	return wanted, nil
}

// reachableURL replaces an inference address that listens on every interface by the
// host that the daemon was reached at.
func reachableURL(inference, admin string) string {
	u, err := url.Parse(inference)
	if err != nil {
		return inference
	}
	a, err := url.Parse(admin)
	if ip := net.ParseIP(u.Hostname()); err != nil || ip == nil || !ip.IsUnspecified() {
		return inference
	}
	u.Host = net.JoinHostPort(a.Hostname(), u.Port())
	return u.String()
}
