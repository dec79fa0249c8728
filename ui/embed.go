// Package ui holds the built web page and serves it.
//
// The sources are TypeScript under src; "npm run build" writes them to dist, which
// is committed, so that the daemon builds without Node. The package knows nothing of
// the API: the page talks to it through the generated clients, on the same address.
package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed all:dist
var dist embed.FS

// policy lets the page load its own files and call its own address, nothing else.
// Style properties set from script are not bound by it, so no inline style is allowed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// contentTypes names the types of the files a build consists of. The system's own
// table is not asked: on some machines it calls JavaScript plain text, which browsers
// refuse under nosniff.
var contentTypes = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".png":   "image/png",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
}

// Handler serves the page. Files under /assets/ carry a hash of their content in
// their name and may be kept for ever; every other path answers index.html, which is
// asked for again each time, so that a new version shows at the next load. Only GET
// and HEAD are answered.
func Handler() http.Handler {
	built, err := fs.Sub(dist, "dist")
	if err != nil {
		// fs.Sub fails only on a path that is not valid, and this one is a constant.
		panic(err)
	}
	return newHandler(built)
}

func newHandler(files fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "The page is only read: use GET.", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if content, err := fs.ReadFile(files, name); err == nil && name != "index.html" {
			serve(w, r, name, content)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			// index.html in the place of a script would only fail later and less clearly.
			http.Error(w, "This file belongs to another version of the page: load the page again.", http.StatusNotFound)
			return
		}
		index, err := fs.ReadFile(files, "index.html")
		if err != nil {
			http.Error(w, "The page is not built into this binary: run \"npm run build\" in ui and build again.", http.StatusServiceUnavailable)
			return
		}
		serve(w, r, "index.html", index)
	})
}

// serve answers content with its type, an entity tag and the right life in caches.
func serve(w http.ResponseWriter, r *http.Request, name string, content []byte) {
	h := w.Header()
	if t, ok := contentTypes[path.Ext(name)]; ok {
		h.Set("Content-Type", t)
	}
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	sum := sha256.Sum256(content)
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// secure sets the headers that every answer carries, refusals included.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}
