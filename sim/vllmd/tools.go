package vllmd

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// tool is a function that a request offers.
type tool struct {
	name   string
	schema json.RawMessage
}

// readTools reads the list of tools of any of the APIs.
func readTools(raw json.RawMessage) []tool {
	var list []struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Input      json.RawMessage `json:"input_schema"`
		Function   *struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var tools []tool
	for _, e := range list {
		t := tool{e.Name, e.Parameters}
		if e.Function != nil {
			t = tool{e.Function.Name, e.Function.Parameters}
		}
		if e.Input != nil {
			t.schema = e.Input
		}
		tools = append(tools, t)
	}
	return tools
}

// Kinds of a choice of tools.
const (
	choiceNone     = "none"
	choiceAuto     = "auto"
	choiceRequired = "required"
	choiceNamed    = "named"
)

// toolChoice is what a request says about the use of its tools.
type toolChoice struct {
	kind string
	name string // of choiceNamed
}

// readChoice reads the choice of any of the APIs; without one it is automatic when there
// are tools.
func readChoice(raw json.RawMessage, tools []tool) toolChoice {
	var word string
	var object struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		word = choiceAuto
		if len(tools) == 0 {
			word = choiceNone
		}
	case json.Unmarshal(raw, &word) == nil:
	case json.Unmarshal(raw, &object) == nil:
		word = object.Type
		if name := object.Name + object.Function.Name; name != "" {
			return toolChoice{choiceNamed, name}
		}
		if word == "any" { // the messages API's word
			word = choiceRequired
		}
	}
	return toolChoice{kind: word}
}

// checkChoice refuses choices that cannot be, and those that this server cannot serve.
func (s *server) checkChoice(c toolChoice, tools []tool, given bool) error {
	const param = "tool_choice"
	switch c.kind {
	case choiceNone, choiceAuto, choiceRequired, choiceNamed:
	default:
		return badRequest(param, "Invalid value for `tool_choice`: %s! Only named tools, \"none\", \"auto\" or \"required\" are supported. (parameter=tool_choice)", c.kind)
	}
	switch {
	case given && c.kind != choiceNone && len(tools) == 0:
		return badRequest(param, "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)")
	case c.kind == choiceNamed && !slices.ContainsFunc(tools, func(t tool) bool { return t.name == c.name }):
		return badRequest(param, "The tool specified in `tool_choice` does not match any of the specified `tools` (parameter=tool_choice)")
	case c.kind == choiceNone || c.kind == choiceAuto && s.opt.tools || c.kind != choiceAuto && s.opt.toolParser:
		return nil
	case c.kind == choiceAuto:
		return badRequest("", `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
	case c.kind == choiceNamed:
		return badRequest("", `tool_choice=function "%s" requires --tool-call-parser to be set`, c.name)
	default:
		return badRequest("", `tool_choice="%s" requires --tool-call-parser to be set`, c.kind)
	}
}

// toolCall is an answer that calls a tool. The offsets are those of the text that the
// model says, which its client does not see as text.
type toolCall struct {
	named     bool // the client chose the tool: the end is then called a stop
	name      string
	arguments string
	nameEnd   int // where the name is complete
	argsAt    int // where the arguments begin
}

// part is how many bytes of the arguments stand in the first n bytes of the text.
func (t *toolCall) part(n int) int { return min(max(0, n-t.argsAt), len(t.arguments)) }

// call returns the answer that calls a tool: the chosen one, else one by the prompt's
// sum. The arguments follow the tool's schema. A call that the limit cuts short is
// shown as the text that it is, as from the real parser.
func callTool(sum uint64, c toolChoice, tools []tool, l limits) answer {
	chosen := tools[int(sum%uint64(len(tools)))]
	if i := slices.IndexFunc(tools, func(t tool) bool { return t.name == c.name }); i >= 0 {
		chosen = tools[i]
	}
	arguments := string(mustJSON(exampleOf(chosen.schema, sum, 0)))
	head := "<tool_call>\n{\"name\": " + string(mustJSON(chosen.name))
	open := head + ", \"arguments\": "
	a := spoken(open+arguments+"}\n</tool_call>", l)
	if a.ended {
		a.tool = &toolCall{
			named: c.kind == choiceNamed, name: chosen.name, arguments: arguments,
			nameEnd: len(head), argsAt: len(open),
		}
	}
	return a
}

// deepestExample bounds how far a schema is followed.
const deepestExample = 6

// exampleOf returns a value that a schema allows, as far as its types, its choices and
// what it requires go. Of an object it fills in what is required.
func exampleOf(raw json.RawMessage, sum uint64, depth int) any {
	var s struct {
		Type       json.RawMessage            `json:"type"`
		Enum       []any                      `json:"enum"`
		Const      any                        `json:"const"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Items      json.RawMessage            `json:"items"`
		MinItems   int                        `json:"minItems"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
	}
	_ = json.Unmarshal(raw, &s) // what is no schema allows anything
	word := words[int(sum%uint64(len(words)))]
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[int(sum%uint64(len(s.Enum)))]
	case len(s.AnyOf) > 0 && depth < deepestExample:
		return exampleOf(s.AnyOf[0], sum, depth+1)
	}
	kind := strings.Trim(string(s.Type), `"`)
	if list := []string{}; json.Unmarshal(s.Type, &list) == nil && len(list) > 0 {
		kind = list[0]
	}
	if kind == "" && s.Properties == nil && depth > 0 {
		kind = "string"
	}
	switch kind {
	case "string":
		return word
	case "integer", "number":
		return sum % 100
	case "boolean":
		return sum%2 == 0
	case "null":
		return nil
	case "array":
		list := []any{}
		for i := range min(s.MinItems, deepestExample) {
			list = append(list, exampleOf(s.Items, sum+uint64(i), depth+1))
		}
		return list
	}
	object := map[string]any{}
	for i, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) && depth < deepestExample {
			object[name] = exampleOf(s.Properties[name], sum/uint64(i+2)+uint64(i), depth+1)
		}
	}
	return object
}
