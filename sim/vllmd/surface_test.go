package vllmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	openAIUsageShape = "{completion_tokens:n,completion_tokens_details:null,prompt_tokens:n,prompt_tokens_details:%s,total_tokens:n}"
	chatShape        = "{choices:[{finish_reason:s,index:n,logprobs:null,message:{annotations:null,audio:null,content:s,function_call:null,reasoning:null,refusal:null,role:s},routed_experts:null,stop_reason:null,token_ids:null}],created:n,ec_transfer_params:null,id:s,kv_transfer_params:null,metrics:null,model:s,object:s,prompt_logprobs:null,prompt_text:null,prompt_token_ids:null,service_tier:null,system_fingerprint:s,usage:" + openAIUsageShape + "}"
	completionShape  = "{choices:[{finish_reason:s,index:n,logprobs:null,prompt_logprobs:null,prompt_token_ids:null,routed_experts:null,stop_reason:null,text:s,token_ids:null}],created:n,ec_transfer_params:null,id:s,kv_transfer_params:null,metrics:null,model:s,object:s,service_tier:null,system_fingerprint:s,usage:" + openAIUsageShape + "}"
	messageShape     = "{content:[{text:s,type:s}],id:s,model:s,role:s,stop_reason:s,type:s,usage:%s}"
	responseShape    = "{background:b,created_at:n,ec_transfer_params:null,frequency_penalty:n,id:s,incomplete_details:{reason:s},input_messages:null,instructions:s,kv_transfer_params:null,max_output_tokens:n,max_tool_calls:null,metadata:null,model:s,object:s,output:[{content:[{annotations:[],logprobs:null,text:s,type:s}],id:s,phase:null,role:s,status:s,type:s}],output_messages:null,parallel_tool_calls:b,presence_penalty:n,previous_response_id:null,prompt:null,reasoning:null,service_tier:s,status:s,temperature:n,text:null,tool_choice:s,tools:[],top_logprobs:null,top_p:n,truncation:s,usage:{input_tokens:n,input_tokens_details:{cache_write_tokens:n,cached_tokens:n,cached_tokens_per_turn:[],input_tokens_per_turn:[]},output_tokens:n,output_tokens_details:{output_tokens_per_turn:[],reasoning_tokens:n,tool_output_tokens:n,tool_output_tokens_per_turn:[]},total_tokens:n},user:null}"
)

// TestShapes holds whole answers to the keys and types of the real engine.
func TestShapes(t *testing.T) {
	const chatBody = `{"model":"tiny","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`
	for _, details := range []bool{false, true} {
		var flags []string
		chatDetails, textDetails := "null", "null"
		anthropic := "{input_tokens:n,output_tokens:n}"
		if details {
			flags = []string{"--enable-prompt-tokens-details"}
			chatDetails = "{cached_tokens:n,created_cache_tokens:n,multimodal_tokens:null}"
			textDetails = "{cached_tokens:n,created_cache_tokens:null,multimodal_tokens:null}"
			anthropic = "{cache_creation_input_tokens:n,cache_read_input_tokens:n,input_tokens:n,output_tokens:n}"
		}
		_, url := testServer(t, flags...)
		for _, c := range []struct{ path, body, want string }{
			{"/v1/chat/completions", chatBody, fmt.Sprintf(chatShape, chatDetails)},
			{"/v1/completions", `{"model":"tiny","prompt":"once upon","max_tokens":5}`, fmt.Sprintf(completionShape, textDetails)},
			{"/v1/completions", `{"model":"tiny","prompt":[7,8,9],"max_tokens":5}`, fmt.Sprintf(completionShape, textDetails)},
			{"/v1/messages", chatBody, fmt.Sprintf(messageShape, anthropic)},
			{"/v1/messages/count_tokens", chatBody, "{context_management:{original_input_tokens:n},input_tokens:n}"},
			{"/v1/responses", `{"model":"tiny","input":"hello","instructions":"be short","max_output_tokens":5}`, responseShape},
			{"/tokenize", `{"model":"tiny","prompt":"hello there"}`, "{count:n,max_model_len:n,token_strs:null,tokens:[n]}"},
		} {
			t.Run(fmt.Sprintf("%s details=%t", c.path, details), func(t *testing.T) {
				if diff := cmp.Diff(c.want, shape(t, post(t, url+c.path, c.body))); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestPlainPaths(t *testing.T) {
	_, url := testServer(t, "--served-model-name", "tiny", "small")
	for path, want := range map[string]string{
		"/version":   `{"version":"0.32.0"}`,
		"/load":      `{"server_load":0}`,
		"/health":    "",
		"/ping":      "",
		"/v1/models": "",
	} {
		res, body := send(t, http.MethodGet, url+path, "")
		if res.StatusCode != http.StatusOK || (want != "" && body != want) {
			t.Errorf("GET %s gave %d %q, want 200 %q", path, res.StatusCode, body, want)
		}
		if got := res.Header.Get("Server"); got != "uvicorn" {
			t.Errorf("GET %s: the server is %q", path, got)
		}
	}
	_, body := send(t, http.MethodGet, url+"/v1/models", "")
	var list struct {
		Data []struct {
			ID, Root    string
			MaxModelLen int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Data) != 2 || list.Data[0].ID != "tiny" || list.Data[1].ID != "small" || list.Data[0].Root != "org/tiny" || list.Data[0].MaxModelLen != 8192 {
		t.Errorf("the models are %+v", list.Data)
	}
}

// TestErrors holds refusals to the status and body of the real engine.
func TestErrors(t *testing.T) {
	_, url := testServer(t)
	long := strings.Repeat("word ", 9000)
	const (
		chat, messages = "/v1/chat/completions", "/v1/messages"
		unknown        = "The model `nope` does not exist. Valid aliases: tiny."
		tooLong        = "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=8193)"
		needParser     = `\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`
		user           = `"messages":[{"role":"user","content":"hi"}]`
	)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string
		header                   []string
	}{
		{"unknown model", "POST", chat, `{"model":"nope",` + user + `}`, 404, `{"error":{"message":"` + unknown + `","type":"NotFoundError","param":"model","code":404}}`, nil},
		{"unknown model, responses", "POST", "/v1/responses", `{"model":"nope","input":"hi"}`, 404, `{"error":{"message":"` + unknown + `","type":"NotFoundError","param":"model","code":404}}`, nil},
		{"unknown model, messages", "POST", messages, `{"model":"nope","max_tokens":5,` + user + `}`, 404, `{"type":"error","error":{"type":"NotFoundError","message":"` + unknown + `"}}`, nil},
		{"too long", "POST", chat, `{"model":"tiny","messages":[{"role":"user","content":"` + long + `"}]}`, 400, `{"error":{"message":"` + tooLong + `","type":"BadRequestError","param":"input_tokens","code":400}}`, nil},
		{"too long, messages", "POST", messages, `{"model":"tiny","max_tokens":5,"messages":[{"role":"user","content":"` + long + `"}]}`, 400, `{"type":"error","error":{"type":"BadRequestError","message":"` + tooLong + `"}}`, nil},
		{"max_tokens", "POST", chat, `{"model":"tiny","max_tokens":90000,` + user + `}`, 400, `{"error":{"message":"max_tokens=90000 cannot be greater than max_model_len=8192. Please request fewer output tokens. (parameter=max_tokens, value=90000)","type":"BadRequestError","param":"max_tokens","code":400}}`, nil},
		{"no messages", "POST", chat, `{"model":"tiny"}`, 400, `{"error":{"message":"1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': '<dict of 1 items>'}","type":"Bad Request","param":"body.messages","code":400}}`, nil},
		{"no max_tokens keeps the OpenAI shape", "POST", messages, `{"model":"tiny",` + user + `}`, 400, `{"error":{"message":"1 validation error:\n  {'type': 'missing', 'loc': 'body.max_tokens', 'msg': 'Field required', 'input': '<dict of 2 items>'}","type":"Bad Request","param":"body.max_tokens","code":400}}`, nil},
		{"no content type", "POST", chat, `{}`, 400, `{"error":{"message":"1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed","type":"Bad Request","param":null,"code":400}}`, []string{"Content-Type", ""}},
		{"tools", "POST", chat, `{"model":"tiny","tools":[{"type":"function"}],` + user + `}`, 400, `{"error":{"message":"` + needParser + `","type":"BadRequestError","param":null,"code":400}}`, nil},
		{"tools, messages", "POST", messages, `{"model":"tiny","max_tokens":5,"tools":[{"name":"x"}],` + user + `}`, 400, `{"type":"error","error":{"type":"BadRequestError","message":"` + needParser + `"}}`, nil},
		{"rank", "POST", chat, `{"model":"tiny",` + user + `}`, 400, `{"error":{"message":"data_parallel_rank 3 is out of range [0, 1).","type":"BadRequestError","param":null,"code":400}}`, []string{"X-Data-Parallel-Rank", "3"}},
		{"negative rank", "POST", chat, `{"model":"tiny",` + user + `}`, 400, `{"error":{"message":"data_parallel_rank -1 is out of range [0, 1).","type":"BadRequestError","param":null,"code":400}}`, []string{"X-Data-Parallel-Rank", "-1"}},
		{"path", "GET", "/v1/embeddings", "", 404, `{"detail":"Not Found"}`, nil},
		{"method", "GET", chat, "", 405, `{"detail":"Method Not Allowed"}`, nil},
		{"stored response", "GET", "/v1/responses/resp_x", "", 404, `{"error":{"message":"Response with id 'resp_x' not found.","type":"invalid_request_error","param":"response_id","code":404}}`, nil},
		{"head", "HEAD", "/", "", 404, "", nil},
		{"head health", "HEAD", "/health", "", 405, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := send(t, c.method, url+c.path, c.body, c.header...)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
			if diff := cmp.Diff(c.want, body); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, path := range []string{chat, messages} {
		res, body := send(t, http.MethodPost, url+path, `{"model":"tiny","messages":`)
		if res.StatusCode != http.StatusBadRequest || dig(t, body, "error", "type") != "Bad Request" {
			t.Errorf("half a body on %s gave %d %s", path, res.StatusCode, body)
		}
	}
}

// A key may come from the environment; keys of the command line replace it.
func TestKeyOfTheEnvironment(t *testing.T) {
	t.Setenv("VLLM_API_KEY", "of the environment")
	for flag, wants := range map[string]string{"": "of the environment", "one": "one"} {
		var args []string
		if flag != "" {
			args = []string{"--api-key", flag}
		}
		_, url := testServer(t, args...)
		for key, status := range map[string]int{wants: 200, "two": 401} {
			if res, _ := send(t, http.MethodGet, url+"/v1/models", "", "Authorization", "Bearer "+key); res.StatusCode != status {
				t.Errorf("with --api-key %q, %q gave %d, want %d", flag, key, res.StatusCode, status)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	_, url := testServer(t, "--api-key", "one", "two")
	for _, c := range []struct {
		path, header string
		status       int
	}{
		{"/v1/models", "", 401},
		{"/v1/models", "Bearer nobody", 401},
		{"/v1/models", "Bearer two", 200},
		{"/health", "", 200},
		{"/metrics", "", 200},
		{"/tokenize", "", 405},
		{"/v2/embed", "", 401},
		{"/inference/v1/generate", "", 401},
	} {
		res, body := send(t, http.MethodGet, url+c.path, "", "Authorization", c.header)
		if res.StatusCode != c.status {
			t.Errorf("%s with %q gave %d, want %d", c.path, c.header, res.StatusCode, c.status)
		}
		if c.status == 401 && body != `{"error":"Unauthorized"}` {
			t.Errorf("the refusal is %s", body)
		}
	}
}
