package supervisor_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests run this very binary again as the engine. What it does is said by its
// arguments, which a spec carries after "serve".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(engine(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "daemon" {
		os.Exit(daemon(os.Args[2], os.Args[3]))
	}
	goleak.VerifyTestMain(m)
}

// script is what an engine was told to do.
type script struct {
	host, port string
	say        string // lines to log first, split at "|"
	exit       int    // code to exit with after the lines; -1 goes on
	children   string // "session" for a child in a session of its own, "wipe" without our environment too
	deaf       bool   // ignores SIGTERM
	hang       bool   // never listens
	blind      bool   // has no metrics
	open       bool   // asks for no key
	sayKey     bool   // logs its key
	mute       bool   // healthy, but answers no request
	sleeper    bool   // is such a child
	envFile    string // where to write the environment
	addrInUse  string // file: while it is missing, make it and fail as a taken port does
	stranger   string // file: while it is missing, make it and answer as another one's engine does
}

func engine(args []string) int {
	var s script
	set := flag.NewFlagSet("engine", flag.ContinueOnError)
	set.StringVar(&s.host, "host", "", "")
	set.StringVar(&s.port, "port", "", "")
	set.StringVar(&s.say, "say", "", "")
	set.IntVar(&s.exit, "exit", -1, "")
	set.StringVar(&s.children, "children", "", "")
	set.BoolVar(&s.deaf, "deaf", false, "")
	set.BoolVar(&s.hang, "hang", false, "")
	set.BoolVar(&s.mute, "mute", false, "")
	set.BoolVar(&s.blind, "blind", false, "")
	set.BoolVar(&s.open, "open", false, "")
	set.BoolVar(&s.sayKey, "say-key", false, "")
	set.BoolVar(&s.sleeper, "sleeper", false, "")
	set.StringVar(&s.envFile, "env-file", "", "")
	set.StringVar(&s.addrInUse, "addr-in-use", "", "")
	set.StringVar(&s.stranger, "stranger", "", "")
	if err := set.Parse(args); err != nil {
		return 2
	}
	ends := make(chan os.Signal, 1)
	if s.deaf || s.sleeper {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(ends, syscall.SIGTERM)
	}
	if s.sleeper {
		select {}
	}
	return s.play(ends)
}

func (s script) play(ends <-chan os.Signal) int {
	if s.envFile != "" {
		if err := os.WriteFile(s.envFile, []byte(strings.Join(os.Environ(), "\n")), 0o600); err != nil {
			return 3
		}
	}
	for line := range strings.SplitSeq(s.say, "|") {
		fmt.Println(line)
	}
	if s.sayKey {
		fmt.Println("my key is", os.Getenv("VLLM_API_KEY"))
	}
	if s.addrInUse != "" {
		if _, err := os.Stat(s.addrInUse); err != nil {
			fmt.Println("OSError: [Errno 98] Address already in use")
			os.WriteFile(s.addrInUse, []byte(s.port), 0o600)
			return 1
		}
	}
	if s.children != "" {
		child := exec.Command(os.Args[0], "serve", "-sleeper")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if s.children == "wipe" {
			child.Env = []string{"NOTHING=1"}
		}
		if err := child.Start(); err != nil {
			return 4
		}
		fmt.Println("child", child.Process.Pid)
	}
	if s.exit >= 0 {
		return s.exit
	}
	if s.hang {
		<-ends
		return 0
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.host, s.port))
	if err != nil {
		fmt.Println("OSError:", err)
		return 1
	}
	go http.Serve(l, s.handler())
	fmt.Println("INFO:     Application startup complete.")
	<-ends
	return 0
}

// handler answers as vLLM does. A POST to /wedge makes it give no token any more, and
// one to /well ends that. A POST to /sick makes its health fail from then on; one
// to /slow makes it wait, each time until one to /quick; one to /well ends both.
func (s script) handler() http.Handler {
	var sick, wedged atomic.Bool
	var tokens atomic.Int64
	var slow atomic.Pointer[chan struct{}] // closed when it is well again; nil while it is
	quick := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/sick", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	mux.HandleFunc("/wedge", func(http.ResponseWriter, *http.Request) { wedged.Store(true) })
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) {
		well := make(chan struct{})
		slow.Store(&well)
	})
	mux.HandleFunc("/well", func(http.ResponseWriter, *http.Request) {
		sick.Store(false)
		wedged.Store(false)
		if well := slow.Swap(nil); well != nil {
			close(*well)
		}
	})
	mux.HandleFunc("/quick", func(http.ResponseWriter, *http.Request) { quick <- struct{}{} })
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		if well := slow.Load(); well != nil {
			select {
			case <-quick:
			case <-*well:
			case <-r.Context().Done():
			}
		}
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"0.32.0"}`) })
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"m","max_model_len":4096}]}`)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		if s.blind {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if !wedged.Load() {
			tokens.Add(2)
		}
		fmt.Fprintf(w, "vllm:generation_tokens_total{engine=\"0\"} %d\n", tokens.Load())
		fmt.Fprintln(w, `vllm:num_requests_running{engine="0"} 2.0`)
		fmt.Fprintln(w, `vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0`)
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model     string `json:"model"`
			MaxTokens int    `json:"max_tokens"`
		}
		if s.mute || json.NewDecoder(r.Body).Decode(&body) != nil || body.Model != "m" || body.MaxTokens != 1 {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		if wedged.Load() {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"choices":[{"text":"x"}]}`)
	})
	key := "Bearer " + os.Getenv("VLLM_API_KEY")
	if s.stranger != "" {
		if _, err := os.Stat(s.stranger); err != nil {
			key = "Bearer of somebody else"
			os.WriteFile(s.stranger, []byte(s.port), 0o600)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.open && strings.HasPrefix(r.URL.Path, "/v1") && r.Header.Get("Authorization") != key {
			http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fast makes a test's second out of an engine's hour.
var fast = struct{ probe, grace time.Duration }{20 * time.Millisecond, 300 * time.Millisecond}
