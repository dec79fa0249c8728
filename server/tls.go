package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"strings"
	"sync/atomic"
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

	// served is never nil. Handshakes load it and wait for no file.
	served atomic.Pointer[tls.Certificate]

	// What follows is for who calls refresh and aging: one goroutine.
	seen   [2]fileState // of the files as they were last read
	looked [2]fileState // of the files at the last look
	told   age          // of the served one, as it was last told
}

// age says how near the end of its time a certificate is.
type age int

const (
	valid   age = iota
	ending      // it should have been renewed by now
	expired     // clients refuse it
)

// renewBefore is how long before its end a certificate should be renewed.
const renewBefore = 14 * 24 * time.Hour

// ageOf returns the age of a certificate. One that lives for weeks only is renewed
// in the last third of its life.
func ageOf(leaf *x509.Certificate, now time.Time) age {
	switch left := leaf.NotAfter.Sub(now); {
	case left < 0:
		return expired
	case left < min(renewBefore, leaf.NotAfter.Sub(leaf.NotBefore)/3):
		return ending
	}
	return valid
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
	c.looked = c.seen
	c.served.Store(pair)
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
	for _, one := range []struct {
		field string
		files *lmwardenv1.TlsFiles
	}{{"inference_tls", cfg.GetInferenceTls()}, {"admin_tls", cfg.GetAdminTls()}} {
		_, bad := openCertificate(one.field, one.files)
		if errors.Is(bad, fs.ErrPermission) {
			notes = append(notes, fmt.Sprintf("%s: its files cannot be read by this user; the daemon's user must", one.field))
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

// refresh reads the files again if they have changed and then stood still since the last
// look, and says whether there is another certificate: it and its key are replaced one
// after the other. With an error the one before is kept. The error is returned once for
// each state of the files.
func (c *certificate) refresh() (changed bool, err error) {
	now := c.states()
	still := now == c.looked
	c.looked = now
	if now == c.seen || !still {
		return false, nil
	}
	c.seen = now
	pair, err := c.read()
	if err != nil {
		return false, fmt.Errorf("the changed certificate is not used, the one read before still counts; correct it: %w", err)
	}
	c.served.Store(pair)
	c.told = valid
	return true, nil
}

// aging returns the age of the served certificate, and whether that has become worse since
// it was last asked for.
func (c *certificate) aging(now time.Time) (is age, worse bool) {
	is = ageOf(c.served.Load().Leaf, now)
	worse = is > c.told
	c.told = is
	return is, worse
}

// old says of the served certificate, of an age other than valid, what is wrong with it:
// "certificate of ... has expired ...".
func (c *certificate) old(is age) string {
	ends := c.served.Load().Leaf.NotAfter.Format(time.RFC3339)
	if is == expired {
		return fmt.Sprintf("certificate of %s in %s has expired at %s, and clients refuse it", c.field, c.certFile, ends)
	}
	return fmt.Sprintf("certificate of %s in %s expires at %s, and clients refuse it then", c.field, c.certFile, ends)
}

// renewIt is what to do about an old certificate.
const renewIt = "Renew it and put it in place of the old one with its key; it is read without a restart."

// current returns the certificate for a handshake.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.served.Load(), nil
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
				refreshCertificates(events, all, time.Now())
			}
		}
	}()
	s.cleanups.push("certificates", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// refreshCertificates looks once at the files of certificates and at their age, and tells
// what came of it.
func refreshCertificates(events *stats.Events, all []*certificate, now time.Time) {
	tell := func(severity stats.Severity, kind, message string) {
		events.Add(stats.Event{Severity: severity, Kind: kind, Replica: box, Message: message})
	}
	for _, c := range all {
		if c == nil {
			continue
		}
		switch changed, err := c.refresh(); {
		case err != nil:
			tell(stats.Error, "certificate_not_read", err.Error())
		case changed:
			tell(stats.Note, "certificate_changed", fmt.Sprintf("The certificate of %s has changed; clients that connect from now on see the new one.", c.field))
		}
		switch is, worse := c.aging(now); {
		case !worse:
		case is == expired:
			tell(stats.Error, "certificate_expired", fmt.Sprintf("The %s. %s", c.old(is), renewIt))
		default:
			tell(stats.Warning, "certificate_expires", fmt.Sprintf("The %s. %s", c.old(is), renewIt))
		}
	}
}
