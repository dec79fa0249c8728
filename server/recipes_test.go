package server

import (
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// Every recipe has the address of this box and the model, and no key that the daemon would
// refuse.
func TestRecipes(t *testing.T) {
	for name, test := range map[string]struct {
		cfg       *lmwardenv1.Config
		key, want string
		note      bool
	}{
		"no key is asked for": {nil, "", "lmwarden", false},
		"a key is missing":    {keysFile(t), "", "YOUR_KEY", true},
		"a key is given":      {keysFile(t), "sk-one", "sk-one", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.cfg)
			r.info.InferenceUrl = "https://box:8000"
			list, err := r.system.ListRecipes(t.Context(), &lmwardenv1.ListRecipesRequest{Model: "qwen3-4b", Key: test.key})
			if err != nil || len(list.GetRecipes()) != 5 || (list.GetNote() != "") != test.note {
				t.Fatalf("%v, %v", list, err)
			}
			for _, recipe := range list.GetRecipes() {
				for _, want := range []string{"https://box:8000", "qwen3-4b", test.want} {
					if !strings.Contains(recipe.GetText(), want) || recipe.GetTitle() == "" || recipe.GetWhere() == "" {
						t.Errorf("%s lacks %q: %s", recipe.GetClient(), want, recipe)
					}
				}
			}
		})
	}
	r := newRig(t, nil)
	_, err := r.system.ListRecipes(t.Context(), &lmwardenv1.ListRecipesRequest{})
	wantError(t, err, connect.CodeInvalidArgument, "model")
}

// A name with marks in it stays one word in each of the languages.
func TestRecipesQuote(t *testing.T) {
	const odd = "it's \"new\" <$HOME>"
	list, err := recipes(recipeValues{URL: "http://box", API: "http://box/v1", Model: odd, ProviderModel: "lmwarden/" + odd, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	text := make(map[string]string)
	for _, r := range list {
		text[r.GetClient()] = r.GetText()
	}
	var file struct {
		Model    string
		Provider map[string]struct {
			Models map[string]struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(text["opencode"]), &file); err != nil || file.Model != "lmwarden/"+odd || file.Provider["lmwarden"].Models[odd].Name != odd {
		t.Errorf("OpenCode reads %+v, %v", file, err)
	}
	for client, want := range map[string]string{
		"claude-code": `export ANTHROPIC_MODEL='it'\''s "new" <$HOME>'` + "\n",
		"codex":       `model = "it's \"new\" <$HOME>"` + "\n",
		"python":      `model="it's \"new\" <$HOME>",` + "\n",
	} {
		if !strings.Contains(text[client], want) {
			t.Errorf("%s lacks %s:\n%s", client, want, text[client])
		}
	}
}
