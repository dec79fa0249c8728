package vllmd

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestRender checks that a rendered chat is what the tokenizer says of it, in vLLM's
// shape, and that nothing is generated for it.
func TestRender(t *testing.T) {
	s, url := testServer(t, "--enable-scale-out")
	const chat = `"messages":[{"role":"system","content":"be short"},{"role":"user","content":"hello there"}]`
	var rendered, tokens struct {
		TokenIDs []uint32 `json:"token_ids"`
		Tokens   []uint32 `json:"tokens"`
	}
	answer := post(t, url+"/v1/chat/completions/render", `{"model":"tiny","max_tokens":5,"stream":true,"stream_options":{"include_usage":true},`+chat+`}`)
	const want = "{cache_salt:null,content_parts:null,ec_transfer_params:null,features:null,kv_transfer_params:null,model:s,output_mode:s," +
		"priority:n,reasoning_ended:null,reasoning_parser_kwargs:null,request_id:s,return_token_ids:null," +
		"sampling_params:{bad_words:[],frequency_penalty:n,max_tokens:n,min_p:n,output_kind:n,presence_penalty:n,repetition_penalty:n," +
		"skip_clone:b,skip_reading_prefix_cache:b,stop:[],stop_token_ids:[],temperature:n,top_p:n}," +
		"stream:b,stream_options:{continuous_usage_stats:b,include_usage:b},token_ids:[n],token_offsets:null}"
	if got := shape(t, answer); got != want {
		t.Errorf("the shape is\n%s, want\n%s", got, want)
	}
	if got := dig(t, answer, "sampling_params", "output_kind"); got != 1.0 {
		t.Errorf("output_kind of a stream is %v, want 1", got)
	}
	if err := json.Unmarshal([]byte(answer), &rendered); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(post(t, url+"/tokenize", `{"model":"tiny",`+chat+`}`)), &tokens); err != nil {
		t.Fatal(err)
	}
	if got, want := string(mustJSON(rendered.TokenIDs)), string(mustJSON(tokens.Tokens)); got != want {
		t.Errorf("the tokens are %s, the tokenizer says %s", got, want)
	}
	s.cores[0].mu.Lock()
	defer s.cores[0].mu.Unlock()
	if n := s.cores[0].figures.prompt.total; n != 0 {
		t.Errorf("%d requests were run to render one", n)
	}
}

func TestRenderRefuses(t *testing.T) {
	_, url := testServer(t, "--enable-scale-out")
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"no messages":   {`{"model":"tiny"}`, 400, "Field required"},
		"unknown model": {`{"model":"other","messages":[{"role":"user","content":"a"}]}`, 404, "does not exist"},
		"too long":      {`{"model":"tiny","messages":[{"role":"user","content":"` + strings.Repeat("word ", 9000) + `"}]}`, 400, "maximum context length"},
	} {
		t.Run(name, func(t *testing.T) {
			res, answer := send(t, http.MethodPost, url+"/v1/chat/completions/render", c.body)
			if res.StatusCode != c.status || !strings.Contains(answer, c.says) {
				t.Errorf("answered %d: %s; want %d with %q", res.StatusCode, answer, c.status, c.says)
			}
		})
	}
}
