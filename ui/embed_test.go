package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// builtAsset returns the path of one script of the committed build.
func builtAsset(t *testing.T) string {
	t.Helper()
	names, err := fs.Glob(dist, "dist/assets/*.js")
	if err != nil || len(names) == 0 {
		t.Fatalf("no script in dist/assets (%v): run npm run build in ui", err)
	}
	return strings.TrimPrefix(names[0], "dist")
}

func TestHandler(t *testing.T) {
	cases := []struct {
		name, method, path string
		status             int
		contentType, cache string
	}{
		{"root", "GET", "/", 200, "text/html; charset=utf-8", "no-cache"},
		{"index by name", "GET", "/index.html", 200, "text/html; charset=utf-8", "no-cache"},
		{"page of a model", "GET", "/models/qwen%2Fqwen3-4b", 200, "text/html; charset=utf-8", "no-cache"},
		{"dots lead nowhere", "GET", "/../embed.go", 200, "text/html; charset=utf-8", "no-cache"},
		{"script", "GET", builtAsset(t), 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"head", "HEAD", builtAsset(t), 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"asset of another build", "GET", "/assets/gone.js", 404, "text/plain; charset=utf-8", ""},
		{"folder", "GET", "/assets/", 200, "text/html; charset=utf-8", "no-cache"},
		{"post", "POST", "/", 405, "text/plain; charset=utf-8", ""},
	}
	h := Handler()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, nil))
			got := rec.Result()
			if got.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", got.StatusCode, c.status, rec.Body)
			}
			for header, want := range map[string]string{
				"Content-Type":            c.contentType,
				"Cache-Control":           c.cache,
				"X-Content-Type-Options":  "nosniff",
				"Content-Security-Policy": policy,
			} {
				if v := got.Header.Get(header); v != want {
					t.Errorf("%s = %q, want %q", header, v, want)
				}
			}
			if c.method == http.MethodHead && rec.Body.Len() != 0 {
				t.Errorf("HEAD answered %d bytes of body", rec.Body.Len())
			}
		})
	}
}

// The policy allows no inline script or style, so the built page may hold none.
func TestIndexObeysPolicy(t *testing.T) {
	index, err := fs.ReadFile(dist, "dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	page := string(index)
	for _, forbidden := range []string{"<style", " style=", "<script>", "javascript:", "http://", "https://"} {
		if strings.Contains(page, forbidden) {
			t.Errorf("index.html holds %q, which the page's policy refuses", forbidden)
		}
	}
}

func TestUnchangedIndexIsNotSentAgain(t *testing.T) {
	h := Handler()
	first := httptest.NewRecorder()
	h.ServeHTTP(first, httptest.NewRequest("GET", "/", nil))
	again := httptest.NewRequest("GET", "/models", nil)
	again.Header.Set("If-None-Match", first.Header().Get("ETag"))
	second := httptest.NewRecorder()
	h.ServeHTTP(second, again)
	if second.Code != http.StatusNotModified {
		t.Errorf("status %d for an unchanged page, want 304", second.Code)
	}
}

func TestNotBuilt(t *testing.T) {
	rec := httptest.NewRecorder()
	newHandler(fstest.MapFS{}).ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "npm run build") {
		t.Errorf("an absent page answered %d %q", rec.Code, rec.Body)
	}
}
