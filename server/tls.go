package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/stats"
)

// certificate is that of one listener. It is read again when one of its files has changed,
// so that a renewed one is shown to the next client without a restart.
type certificate struct {
	field             string // of the configuration: "inference_tls"
	certFile, keyFile string

	mu   sync.Mutex // guards what follows
	seen [2]fileState
	now  *tls.Certificate
}

// openCertificate reads the certificate of a listener; nil files stand for none, and then
// the listener speaks no TLS. Its errors name the field, the file and the fix.
func openCertificate(field string, files *lmwardenv1.TlsFiles) (*certificate, error) {
	if files.GetCertFile() == "" && files.GetKeyFile() == "" {
		return nil, nil //nolint:nilnil // no certificate is no error
	}
	if err := checkTLS(field, files); err != nil {
		return nil, err
	}
	c := &certificate{field: field, certFile: files.GetCertFile(), keyFile: files.GetKeyFile()}
	c.seen = c.states() // before the reading: a change between the two is seen later
	pair, err := c.read()
	if err != nil {
		return nil, err
	}
	c.now = pair
	return c, nil
}

// Scheme returns the scheme of the URLs of a listener: https with a certificate.
func Scheme(files *lmwardenv1.TlsFiles) string {
	if files.GetCertFile() != "" {
		return "https"
	}
	return "http"
}

// checkTLS refuses half a certificate.
func checkTLS(field string, files *lmwardenv1.TlsFiles) error {
	switch cert, key := files.GetCertFile(), files.GetKeyFile(); {
	case cert == "" && key != "":
		return fmt.Errorf("%s.cert_file is empty and key_file is set; name the certificate of %s, or neither to serve without TLS", field, key)
	case cert != "" && key == "":
		return fmt.Errorf("%s.key_file is empty and cert_file is set; name the private key of %s, or neither to serve without TLS", field, cert)
	}
	return nil
}

// checkCertificates reads the certificates of both listeners. What this user may not read
// is a note, since the daemon's user may.
func checkCertificates(cfg *lmwardenv1.Config) (notes []string, err error) {
	for field, files := range map[string]*lmwardenv1.TlsFiles{"inference_tls": cfg.GetInferenceTls(), "admin_tls": cfg.GetAdminTls()} {
		_, bad := openCertificate(field, files)
		if errors.Is(bad, fs.ErrPermission) {
			notes = append(notes, fmt.Sprintf("%s: its files cannot be read by this user; the daemon's user must", field))
			bad = nil
		}
		err = errors.Join(err, bad)
	}
	return notes, err
}

func (c *certificate) states() [2]fileState {
	return [2]fileState{fileStateOf(c.certFile), fileStateOf(c.keyFile)}
}

// read reads both files.
func (c *certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %s and %s are no certificate with its private key, both in PEM: %w", c.field, c.certFile, c.keyFile, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate in %s has expired at %s; renew it", c.field, c.certFile, pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	return &pair, nil
}

// refresh reads the files again if they have changed, and says whether there is another
// certificate. With an error the one before is kept. The error is returned once for each
// state of the files.
func (c *certificate) refresh() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.states()
	if now == c.seen {
		return false, nil
	}
	c.seen = now
	pair, err := c.read()
	if err != nil {
		return false, fmt.Errorf("the changed certificate is not used, the one read before still counts; correct it: %w", err)
	}
	c.now = pair
	return true, nil
}

// current returns the certificate for a handshake.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}

// listener returns one that speaks TLS: HTTP/2 and HTTP/1.1, as the client likes best.
func (c *certificate) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: c.current,
	})
}

// debugLogger returns what http.Server wants to tell of its connections to.
func debugLogger(to zerolog.Logger, listener string) *log.Logger {
	return log.New(debugLog{to, listener}, "", 0)
}

// debugLog takes what the library says of connections, such as a client that does not
// speak TLS: nothing that an operator must know, and anybody can cause it.
type debugLog struct {
	log      zerolog.Logger
	listener string
}

// Write logs one line.
func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug().Str("listener", d.listener).Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// certificateEvery is how often the files of certificates are looked at.
const certificateEvery = time.Second

// watchCertificates reads renewed certificates until its clean-up.
func (s *Server) watchCertificates(events *stats.Events, all ...*certificate) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(certificateEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				refreshCertificates(events, all)
			}
		}
	}()
	s.cleanups.push("certificates", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// refreshCertificates looks once at the files of certificates and tells what came of it.
func refreshCertificates(events *stats.Events, all []*certificate) {
	for _, c := range all {
		if c == nil {
			continue
		}
		switch changed, err := c.refresh(); {
		case err != nil:
			events.Add(stats.Event{Severity: stats.Error, Kind: "certificate_not_read", Replica: box, Message: err.Error()})
		case changed:
			events.Add(stats.Event{Severity: stats.Note, Kind: "certificate_changed", Replica: box, Message: fmt.Sprintf("The certificate of %s has changed; clients that connect from now on see the new one.", c.field)})
		}
	}
}
