//go:build clients

package clients

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// wireBox is a daemon before scripted replicas that clients reach without a tap, over a
// wire that counts its connections.
type wireBox struct {
	*harness.Daemon
	*engines
	url  string // what clients are given
	cert string // file of the certificate, "" when the daemon speaks in the clear
	wire *wire
}

// newWireBox starts one, with a certificate made for this run or in the clear.
func newWireBox(t *testing.T, secure bool) *wireBox {
	e := newEngines(t, 2)
	e.play(sdkScript)
	b := &wireBox{engines: e}
	scheme, settings := "http://", ""
	if secure {
		var key string
		b.cert, key = throwAwayCertificate(t)
		scheme, settings = "https://", fmt.Sprintf("inference_tls: {cert_file: %q, key_file: %q}\n", b.cert, key)
	}
	b.Daemon = newDaemonWith(t, settings, 5*time.Minute, e.urls...)
	b.wire = newWire(t, strings.TrimPrefix(b.InferenceURL, "http://"))
	b.url = scheme + b.wire.listener.Addr().String()
	return b
}

// throwAwayCertificate makes a certificate for 127.0.0.1 and returns its file and its key's.
func throwAwayCertificate(t *testing.T) (cert, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a box of a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, private = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, private, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return cert, private
}

// wire passes bytes on and counts the connections that were made.
type wire struct {
	listener net.Listener
	made     atomic.Int64
}

// newWire lays a wire to an address.
func newWire(t *testing.T, to string) *wire {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			w.made.Add(1)
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			copies := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // either end may go away at any time
				to.Close()
				from.Close()
			}
			running.Go(func() { copies(far, near) })
			running.Go(func() { copies(near, far) })
		}
	})
	t.Cleanup(func() { // before the daemon ends, which ends the connections
		listener.Close()
	})
	return w
}

// idle waits until nothing is in flight on any replica.
func (b *wireBox) idle(t *testing.T) {
	t.Helper()
	harness.Within(t, 30*time.Second, func() error { return b.Idle(t.Context(), model) })
}

// left checks that the engines know of requests whose client left in the middle.
func (b *wireBox) left(t *testing.T, want int) {
	t.Helper()
	halves := 0
	for _, kept := range b.forget() {
		if !strings.Contains(string(kept.body), "HALF") {
			continue
		}
		halves++
		select {
		case <-kept.aborted:
		case <-time.After(30 * time.Second):
			t.Errorf("a client left, but its request to %s still runs in the engine", kept.uri)
		}
	}
	if halves != want {
		t.Errorf("%d requests that were left reached the engines, want %d", halves, want)
	}
	b.idle(t)
}

// TestSDKsOverHTTP2 has both SDKs ask for tools, read many streams at one time and leave
// some in their middle, all of each on one connection.
func TestSDKsOverHTTP2(t *testing.T) {
	many := object{"texts": []any{"Hello ☀."}, "count": 8.0, "after": "Hello ☀."}
	one := object{
		"call": object{"name": "weather", "arguments": object{"city": "Zürich"}}, "response": "Hello ☀.",
		"fault": []any{400.0, "The engine does not like it."}, "cut": true, "many": many, "versions": []any{"HTTP/2"},
	}
	for name, secure := range map[string]bool{"TLS": true, "in the clear": false} {
		t.Run(name, func(t *testing.T) {
			b := newWireBox(t, secure)
			file, err := filepath.Abs(filepath.Join("sdk", "http2_sdk.py"))
			if err != nil {
				t.Fatal(err)
			}
			python := filepath.Join(clients(t), "python/bin/python")
			out := program(t, command(t, newPlace(t), nil, python, file, b.url, model, b.cert))
			var got object
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("the program printed %q: %v", out, err)
			}
			if d := cmp.Diff(object{"openai": one, "anthropic": one}, got); d != "" {
				t.Errorf("the SDKs saw something else (-want +got):\n%s", d)
			}
			b.left(t, 4)
			// A cut ends its stream and not the connection that the others are on.
			if n := b.wire.made.Load(); n != 2 {
				t.Errorf("the two SDKs made %d connections, want one each", n)
			}
		})
	}
}

// TestCurlOverHTTP2 has curl ask over TLS and in the clear: it reads a stream to its end,
// and is killed in the middle of another.
func TestCurlOverHTTP2(t *testing.T) {
	for _, c := range []struct {
		name    string
		secure  bool
		flags   []string
		version string
	}{
		{"TLS", true, []string{"--http2"}, "2"},
		{"prior knowledge", false, []string{"--http2-prior-knowledge"}, "2"},
		// A wish to change from HTTP/1.1 is not granted, and curl goes on without.
		{"upgrade", false, []string{"--http2"}, "1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newWireBox(t, c.secure)
			ask := func(content string, more ...string) []string {
				args := append([]string{"--silent", "--show-error", "--no-buffer"}, c.flags...)
				if b.cert != "" {
					args = append(args, "--cacert", b.cert)
				}
				return append(append(args, more...), "--json", fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, content), b.url+"/v1/chat/completions")
			}
			got := program(t, command(t, newPlace(t), nil, "curl", ask("hello", "--write-out", "%{http_version} %{http_code}")...))
			body, state, _ := strings.Cut(got, "data: [DONE]\n\n")
			if state != c.version+" 200" || !strings.Contains(body, `"finish_reason":"stop"`) || strings.Contains(body, `"usage"`) {
				t.Errorf("curl got %q", got)
			}
			if got := program(t, command(t, newPlace(t), nil, "curl", ask("BAD", "--write-out", "%{http_version} %{http_code}")...)); !strings.HasSuffix(got, "}"+c.version+" 400") {
				t.Errorf("curl got %q", got)
			}
			// Over HTTP/2 curl drops what came right before the reset of a stream.
			if end := run(t, command(t, newPlace(t), nil, "curl", ask("CUT")...)); end.Code == 0 || c.version == "1.1" && !strings.Contains(end.Stdout, `"error"`) {
				t.Errorf("curl took a cut stream for a whole one: %d, %q", end.Code, end.Stdout)
			}
			cmd := command(t, newPlace(t), nil, "curl", ask("HALF")...)
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(pipe); lines.Scan() && !strings.Contains(lines.Text(), "Half"); {
			}
			if err := cmd.Process.Signal(os.Kill); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it was killed
			b.left(t, 1)
		})
	}
}

// TestManyStreamsOfOneHTTP2Connection: as many streams as replicas take at one time run on
// one connection. One that is cut says why and harms no other, and each one that is left
// frees its place.
func TestManyStreamsOfOneHTTP2Connection(t *testing.T) {
	b := newWireBox(t, false)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	open := func(content string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions",
			strings.NewReader(fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, content)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var left []*http.Response
	for i := range 60 {
		left = append(left, open(fmt.Sprint("HALF ", i)))
	}
	cut := open("CUT")
	if got, err := io.ReadAll(cut.Body); err == nil || !strings.Contains(string(got), `data: {"error"`) || strings.Contains(string(got), "[DONE]") {
		t.Errorf("a cut stream ended with %v and said %q", err, got)
	}
	whole := open("hello")
	if got, err := io.ReadAll(whole.Body); err != nil || !strings.HasSuffix(string(got), "data: [DONE]\n\n") {
		t.Errorf("a stream beside others ended with %v and said %q", err, got)
	}
	for _, answer := range append(left, cut, whole) {
		answer.Body.Close()
	}
	b.left(t, len(left))
	if n := b.wire.made.Load(); n != 1 {
		t.Errorf("the streams took %d connections, want 1", n)
	}
}
