package server

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/stats"
)

// writeCertificate writes a certificate for 127.0.0.1 that ends at a time, and returns its
// serial number and the pool that trusts it.
func writeCertificate(t *testing.T, files *lmwardenv1.TlsFiles, ends time.Time) (*big.Int, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "box"}, NotBefore: ends.Add(-48 * time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.WriteFile(files.GetCertFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(files.GetKeyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return serial, pool
}

// tlsFiles returns the names of a certificate that is not written yet.
func tlsFiles(t *testing.T) *lmwardenv1.TlsFiles {
	t.Helper()
	dir := t.TempDir()
	return &lmwardenv1.TlsFiles{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
}

// speaking returns a client of some protocols; with a pool it trusts that alone.
func speaking(t *testing.T, pool *x509.CertPool, set func(*http.Protocols)) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	set(transport.Protocols)
	if pool != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// streams checks that a chat streams over a protocol.
func streams(t *testing.T, client *http.Client, base, proto string) {
	t.Helper()
	resp, err := client.Post(base+"/v1/chat/completions", jsonType, strings.NewReader(chatBody(`"stream":true,`, "Hi")))
	if err != nil {
		t.Errorf("%s at %s: %v", proto, base, err)
		return
	}
	defer resp.Body.Close()
	events := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	if resp.Proto != proto || resp.StatusCode != http.StatusOK || events != 3 {
		t.Errorf("%s at %s: %s %s with %d events, want 200 with 3", proto, base, resp.Proto, resp.Status, events)
	}
}

func http1(p *http.Protocols)  { p.SetHTTP1(true) }
func http2(p *http.Protocols)  { p.SetHTTP2(true) }
func clear2(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }

// With a certificate both listeners speak HTTP/2 and HTTP/1.1 over TLS and nothing else.
func TestListenersSpeakTLS(t *testing.T) {
	cfg := testConfig(t)
	cfg.InferenceTls, cfg.AdminTls = tlsFiles(t), tlsFiles(t)
	_, pool := writeCertificate(t, cfg.GetInferenceTls(), time.Now().Add(time.Hour))
	_, adminPool := writeCertificate(t, cfg.GetAdminTls(), time.Now().Add(time.Hour))
	s, _ := startTalking(t, cfg)
	base := "https://" + s.InferenceAddr().String()
	streams(t, speaking(t, pool, http2), base, "HTTP/2.0")
	streams(t, speaking(t, pool, http1), base, "HTTP/1.1")
	for name, set := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": clear2} {
		resp, err := speaking(t, nil, set).Get("http://" + s.InferenceAddr().String() + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s without TLS was answered %s", name, resp.Status)
			}
		}
	}
	for name, set := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": http2} {
		transport := connecthttp.NewTransport(speaking(t, adminPool, set), "https://"+s.AdminAddr().String())
		info, err := lmwardenv1connect.NewSystemServiceClient(connect.NewClient(transport)).GetInfo(t.Context(), &lmwardenv1.GetInfoRequest{})
		if err != nil || info.GetInfo().GetInferenceUrl() != base {
			t.Errorf("the API over %s: %v, %v; want %s told", name, info, err, base)
		}
	}
}

// Without one they speak HTTP/2 and HTTP/1.1 in the clear.
func TestListenersSpeakInTheClear(t *testing.T) {
	s, _ := startTalking(t, testConfig(t))
	base := "http://" + s.InferenceAddr().String()
	streams(t, speaking(t, nil, http1), base, "HTTP/1.1")
	streams(t, speaking(t, nil, clear2), base, "HTTP/2.0")
}

// A renewed certificate is shown to who connects next; one that cannot be used changes
// nothing and is reported once.
func TestRenewedCertificate(t *testing.T) {
	files := tlsFiles(t)
	first, _ := writeCertificate(t, files, time.Now().Add(time.Hour))
	c, err := openCertificate("inference_tls", files)
	if err != nil {
		t.Fatal(err)
	}
	events := stats.NewEvents()
	shown := func() *big.Int {
		pair, err := c.current(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.SerialNumber
	}
	refresh := func() { refreshCertificates(events, []*certificate{nil, c}) }
	refresh()
	if shown().Cmp(first) != 0 {
		t.Error("an unchanged file was another certificate")
	}
	second, _ := writeCertificate(t, files, time.Now().Add(2*time.Hour))
	refresh()
	if shown().Cmp(second) != 0 {
		t.Error("the renewed certificate is not shown")
	}
	if err := os.WriteFile(files.GetKeyFile(), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	refresh()
	refresh()
	if shown().Cmp(second) != 0 {
		t.Error("a file that cannot be read took the certificate away")
	}
	page, _ := events.Page("", 0, 10)
	if len(page) != 2 || page[0].Kind != "certificate_not_read" || page[1].Kind != "certificate_changed" {
		t.Errorf("events %+v, want one change and one that cannot be used", page)
	}
}

// Bad files are refused with a sentence, by config check and by a start.
func TestBadCertificates(t *testing.T) {
	good, ended, other := tlsFiles(t), tlsFiles(t), tlsFiles(t)
	writeCertificate(t, good, time.Now().Add(time.Hour))
	writeCertificate(t, ended, time.Now().Add(-time.Minute))
	writeCertificate(t, other, time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		files *lmwardenv1.TlsFiles
		want  string
	}{
		"no key":         {&lmwardenv1.TlsFiles{CertFile: good.GetCertFile()}, "inference_tls.key_file is empty"},
		"no certificate": {&lmwardenv1.TlsFiles{KeyFile: good.GetKeyFile()}, "inference_tls.cert_file is empty"},
		"missing":        {&lmwardenv1.TlsFiles{CertFile: "/does/not/exist", KeyFile: good.GetKeyFile()}, "no such file"},
		"another's key":  {&lmwardenv1.TlsFiles{CertFile: good.GetCertFile(), KeyFile: other.GetKeyFile()}, "are no certificate with its private key"},
		"expired":        {ended, "has expired at"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			text := "inference_tls: {cert_file: \"" + test.files.GetCertFile() + "\", key_file: \"" + test.files.GetKeyFile() + "\"}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := CheckConfig(file); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("config check: %v, want %q", err, test.want)
			}
			cfg := testConfig(t)
			cfg.InferenceTls = test.files
			s, err := New(Options{Config: cfg, NoGPU: true})
			if err == nil {
				err = errors.Join(s.Start(t.Context()), s.Stop(t.Context()))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("start: %v, want %q", err, test.want)
			}
		})
	}
}
