package auth_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/server/auth"
)

func TestEnsureTokenMakesItOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "admin-token")
	token, made, err := auth.EnsureToken(path)
	if err != nil || len(made) < 32 || !token.Matches(made) {
		t.Fatalf("made %q, %v", made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	again, second, err := auth.EnsureToken(path)
	if err != nil || second != "" || !again.Matches(made) {
		t.Errorf("the second start made %q, %v; it must take the first one", second, err)
	}
	if again.Matches(made+"x") || again.Matches("") {
		t.Error("a wrong secret matches")
	}
}

func TestShortTokenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.LoadToken(path); err == nil || strings.Contains(err.Error(), "short\n") {
		t.Errorf("got %v, want a refusal without the secret", err)
	}
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "Basic abc": "", "abc": "", "": "", "Bearer": "",
	} {
		if got := auth.Bearer(header); got != want {
			t.Errorf("Bearer(%q) = %q, want %q", header, got, want)
		}
	}
}

func TestReadKeys(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"names and hashes": {
			"# our keys\n\nsk-one # alice\n  sk-two\n",
			map[string]string{"sk-one": "alice", "sk-two": "key-5e312785"},
			"",
		},
		"empty":         {"# nothing\n", nil, "holds no key"},
		"twice":         {"sk-one\nsk-one # again\n", nil, "line 2"},
		"every key":     {"sk-one # *\n", nil, "line 1: a key cannot have the name \"*\""},
		"space":         {"sk one\n", nil, "line 1"},
		"no line break": {"sk-one", map[string]string{"sk-one": "key-456f1612"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := auth.ReadKeys(path)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want an error with %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	if _, err := auth.ReadKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestLocalHosts(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	h := auth.LocalHosts(ok, auth.Plainly, "box.example:8001")
	for host, want := range map[string]int{
		"127.0.0.1:8001": 200, "localhost:8001": 200, "[::1]:8001": 200, "LOCALHOST": 200, "page.localhost:1": 200,
		"localhost.:8001": 200, "::1": 200, "[::1]": 200, "[fe80::1%25eth0]:1": 200,
		// Nobody can make an address mean another host, only a name.
		"192.168.1.2:8001": 200,
		"box.example":      200, "Box.Example:9": 200,
		"evil.example:8001": 421, "127.0.0.1.evil.example": 421, "evillocalhost": 421, "localhost.evil.example": 421, "": 421, ":8001": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}
