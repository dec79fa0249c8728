package wire_test

import (
	"fmt"
	"net/http"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// A request is scanned once; what it says of its conversation becomes a key that is
// scoped to tenant and model.
func ExampleIdentify() {
	body := []byte(`{"model":"claude-opus-4-8[1m]","stream":true,"messages":[{"role":"user","content":"find x"}]}`)
	header := http.Header{}
	header.Set("x-claude-code-session-id", "3f2b8c1e-5a4d-4f60-9b7a-0c1d2e3f4a5b")
	header.Set("x-claude-code-agent-id", "a17")

	var s wire.Scan
	if err := s.Scan(body); err != nil {
		fmt.Println(err)
		return
	}
	id := wire.Identify(wire.APIOf(http.MethodPost, "/v1/messages"), header, &s, wire.Options{})
	fmt.Println(wire.CutContextSuffix(s.Model()))
	fmt.Println(id.Kind, id.Source, id.Key)
	fmt.Println(len(wire.Hash("team-a", "qwen3-4b", id.Key)), "bytes")
	// Output:
	// claude-opus-4-8
	// agent cc-header id:3f2b8c1e-5a4d-4f60-9b7a-0c1d2e3f4a5b/a:a17
	// 16 bytes
}

// The engine is asked for usage, and the client that did not ask never sees it.
func ExampleStream() {
	var s wire.Scan
	if err := s.Scan([]byte(`{"model":"fast","stream":true}`)); err != nil {
		fmt.Println(err)
		return
	}
	body, added := wire.Rewrite(wire.APIChat, &s, wire.Edit{Model: "qwen3-4b", IncludeUsage: true})
	fmt.Printf("%s\n\n", body)

	answer := wire.NewStream(wire.APIChat, wire.StreamOptions{DropUsage: added, Requested: "fast", Served: "qwen3-4b"})
	for _, piece := range []string{
		`data: {"model":"qwen3-4b","choices":[{"delta":{"content":"Hi"},"finish_re`,
		"ason\":\"stop\"}]}\n\ndata: {\"model\":\"qwen3-4b\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,",
		"\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
	} {
		fmt.Printf("%s", answer.Write([]byte(piece)))
	}
	fmt.Printf("%s%+v\n", answer.Close(), answer.State().Usage)
	// Output:
	// {"stream_options":{"include_usage":true},"model":"qwen3-4b","stream":true}
	//
	// data: {"model":"fast","choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}
	//
	// data: [DONE]
	//
	// {Prompt:9 Cached:-1 Completion:1}
}
