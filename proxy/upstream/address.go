package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// address is where an engine is, taken apart.
type address struct {
	text   string // as it was given
	secure bool   // TLS
	name   string // of the host, for its certificate
	dial   string // host and port
	host   string // for the Host header
	prefix string // of every path; without a slash at its end
}

// resolve takes the address of an engine apart. The latest is remembered, since an
// engine rarely moves.
func (cl *Client) resolve(text string) (*address, error) {
	if a := cl.address.Load(); a != nil && a.text == text {
		return a, nil
	}
	a, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	cl.address.Store(a)
	return a, nil
}

// parseAddress takes an address apart: "http://127.0.0.1:8000", or https, with a path
// when the engine is behind one. What would not be sent is refused. The error names the
// address, without what may be a secret in it.
func parseAddress(text string) (*address, error) {
	u, err := url.Parse(text)
	var unsaid *url.Error
	if errors.As(err, &unsaid) {
		err = unsaid.Err // without the address, which may hold a password
	}
	var a *address
	if err == nil {
		a, err = takeApart(text, u)
	}
	if err != nil {
		return nil, fmt.Errorf("the address %q of an engine cannot be used: %w", withoutSecrets(text), err)
	}
	return a, nil
}

// CheckAddress returns what is wrong with the address of an engine, as a client would find
// it at the first request: nil when it is "http://127.0.0.1:8000" or https, with a path or
// without. The error names the address, without what may be a secret in it.
func CheckAddress(text string) error {
	_, err := parseAddress(text)
	return err
}

// withoutSecrets cuts from an address what stands before its host and behind its path.
func withoutSecrets(text string) string {
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// takeApart is parseAddress for an address that is a URL.
func takeApart(text string, u *url.URL) (*address, error) {
	switch {
	case u.User != nil:
		return nil, errors.New("it holds a user or a password, which no engine is sent; take it out")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("it holds something behind its path, which no engine is sent; end it before the ? or #")
	}
	a := &address{text: text, name: u.Hostname(), host: u.Host, prefix: strings.TrimRight(u.EscapedPath(), "/")}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		a.secure = true
		if port == "" {
			port = "443"
		}
	default:
		return nil, fmt.Errorf("it begins with %q; write http:// or https://", u.Scheme)
	}
	if a.name == "" {
		return nil, fmt.Errorf("it names no host")
	}
	a.dial = net.JoinHostPort(a.name, port)
	// The zone of an IPv6 address means something on this machine only.
	if at := strings.IndexByte(a.host, '%'); at >= 0 {
		if end := strings.IndexByte(a.host[at:], ']'); end >= 0 {
			a.host = a.host[:at] + a.host[at+end:]
		}
	}
	if !printable(a.host) {
		return nil, fmt.Errorf("its host is not ASCII; write it as xn--…")
	}
	return a, nil
}

// printable says whether a text is visible ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
