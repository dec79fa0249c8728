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
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/stats"
)

// putFile puts a file in place of another at once, as whoever renews a certificate should.
func putFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(name+".new", data, 0o600), os.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 of 90 days that ends at a time, and
// returns its serial number and the pool that trusts it.
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
		SerialNumber: serial, Subject: pkix.Name{CommonName: "box"}, NotBefore: ends.AddDate(0, 0, -90), NotAfter: ends,
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
	putFile(t, files.GetCertFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	putFile(t, files.GetKeyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
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

// A renewed certificate is shown to who connects next, when both of its files are there;
// one that cannot be used changes nothing and is reported once.
func TestRenewedCertificate(t *testing.T) {
	files, next := tlsFiles(t), tlsFiles(t)
	first, _ := writeCertificate(t, files, time.Now().AddDate(0, 0, 30))
	c, err := openCertificate("inference_tls", files)
	if err != nil {
		t.Fatal(err)
	}
	events := stats.NewEvents()
	// look is one look at the files, which finds a certificate served and events told.
	look := func(what string, serial *big.Int, kinds ...string) {
		t.Helper()
		refreshCertificates(events, []*certificate{nil, c}, time.Now())
		if pair, err := c.current(nil); err != nil || pair.Leaf.SerialNumber.Cmp(serial) != 0 {
			t.Errorf("%s: the wrong certificate is served, %v", what, err)
		}
		wantKinds(t, what, events, kinds...)
	}
	look("unchanged", first)
	second, _ := writeCertificate(t, next, time.Now().AddDate(0, 0, 60))
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(next.GetCertFile(), files.GetCertFile())
	look("the certificate is new, its key is not", first)
	move(next.GetKeyFile(), files.GetKeyFile())
	look("both are new, a moment ago", first)
	look("both are new", second, "certificate_changed")
	look("again", second, "certificate_changed")
	putFile(t, files.GetKeyFile(), []byte("no key"))
	look("no key, a moment ago", second, "certificate_changed")
	look("no key", second, "certificate_changed", "certificate_not_read")
	look("still no key", second, "certificate_changed", "certificate_not_read")
}

// wantKinds checks which events there are, oldest first.
func wantKinds(t *testing.T, what string, events *stats.Events, want ...string) {
	t.Helper()
	page, _ := events.Page("", 0, 10)
	var got []string
	for _, e := range slices.Backward(page) {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: events %q, want %q", what, got, want)
	}
}

// A certificate that nobody renews is reported when it should have been and when it has
// expired, once each, and fails the doctor's check; a renewed one begins anew.
func TestCertificateThatNobodyRenews(t *testing.T) {
	files := tlsFiles(t)
	ends := time.Now().AddDate(0, 0, 30)
	writeCertificate(t, files, ends)
	one, err := openCertificate("admin_tls", files)
	if err != nil {
		t.Fatal(err)
	}
	events, now := stats.NewEvents(), time.Now()
	c := &control{access: access{admin: one}, now: func() time.Time { return now }}
	look := func(at time.Time, says string, kinds ...string) {
		t.Helper()
		now = at
		for range 2 {
			refreshCertificates(events, []*certificate{one}, now)
		}
		wantKinds(t, says, events, kinds...)
		if check := c.checkServedCertificates(); !strings.Contains(check.GetMessage(), says) || check.GetOk() != strings.Contains(says, "valid") {
			t.Errorf("the doctor says %v, want %q", check, says)
		}
	}
	look(ends.Add(-renewBefore-time.Hour), "admin_tls is valid until")
	look(ends.Add(-renewBefore+time.Hour), "expires at", "certificate_expires")
	look(ends.Add(time.Hour), "has expired at", "certificate_expires", "certificate_expired")
	writeCertificate(t, files, ends.AddDate(0, 0, 60))
	look(ends.Add(2*time.Hour), "admin_tls is valid until", "certificate_expires", "certificate_expired", "certificate_changed")
	look(ends.AddDate(0, 0, 59), "expires at", "certificate_expires", "certificate_expired", "certificate_changed", "certificate_expires")
	// One of a week is renewed in its last days, not always.
	week := &x509.Certificate{NotBefore: ends, NotAfter: ends.AddDate(0, 0, 6)}
	if ageOf(week, ends.AddDate(0, 0, 3)) != valid || ageOf(week, ends.AddDate(0, 0, 5)) != ending {
		t.Error("a certificate of six days should be renewed in its last two")
	}
	if check := (&control{}).checkServedCertificates(); !check.GetOk() {
		t.Errorf("without TLS: %v", check)
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
