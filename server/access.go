package server

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/auth"
)

// access is who may call the two listeners.
type access struct {
	// keys of the inference endpoint; without any, none is asked for.
	keys *keyring
	// token of the admin API; nil asks for none.
	token *auth.Token
	// inference and admin are the certificates of the listeners; nil without TLS.
	inference, admin *certificate
	// made is the admin token when this start made it.
	made string
	// warnings name the protections that insecure took away.
	warnings []string
}

// checkAddress says whether text is an address to listen on.
func checkAddress(field, text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%s: %q is not HOST:PORT: %w", field, text, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: %q has no port from 0 to 65535", field, text)
	}
	return nil
}

// loopback says whether only this host can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkInferenceAccess refuses an inference address that the network can reach
// without keys.
func checkInferenceAccess(cfg *lmwardenv1.Config) error {
	if loopback(cfg.GetInferenceListen()) || cfg.GetInsecure() || cfg.GetInferenceAuth().GetKeysFile() != "" {
		return nil
	}
	return fmt.Errorf("inference_listen %s can be reached from the network and asks for no key: set inference_auth.keys_file, listen on a loopback address, or accept that everyone may use the models with insecure: true", cfg.GetInferenceListen())
}

// resolveAccess reads keys and token as the configuration (with defaults) asks, and
// makes the admin token at the first start that needs one. [New] has checked that an
// address without keys is not open by accident.
func resolveAccess(cfg *lmwardenv1.Config) (access, error) {
	var a access
	err := errors.Join(a.resolveInference(cfg), a.resolveAdmin(cfg), a.resolveCertificates(cfg))
	return a, err
}

func (a *access) resolveInference(cfg *lmwardenv1.Config) error {
	var err error
	a.keys, err = openKeyring(cfg.GetInferenceAuth().GetKeysFile())
	if err != nil || a.keys.file != "" {
		return err
	}
	if !loopback(cfg.GetInferenceListen()) {
		a.warnings = append(a.warnings, "INSECURE: everyone who can reach "+cfg.GetInferenceListen()+" may use the models")
	}
	return nil
}

func (a *access) resolveCertificates(cfg *lmwardenv1.Config) error {
	var errInference, errAdmin error
	a.inference, errInference = openCertificate("inference_tls", cfg.GetInferenceTls())
	a.admin, errAdmin = openCertificate("admin_tls", cfg.GetAdminTls())
	return errors.Join(errInference, errAdmin)
}

func (a *access) resolveAdmin(cfg *lmwardenv1.Config) error {
	file := cfg.GetAdminAuth().GetTokenFile()
	if file == "" {
		if loopback(cfg.GetAdminListen()) {
			return nil
		}
		if cfg.GetInsecure() {
			a.warnings = append(a.warnings, "INSECURE: everyone who can reach "+cfg.GetAdminListen()+" may start and stop models and run commands as this user")
			return nil
		}
		file = filepath.Join(cfg.GetDataDir(), adminTokenFile)
	}
	token, made, err := auth.EnsureToken(file)
	if err != nil {
		return fmt.Errorf("admin_listen %s needs a token: %w", cfg.GetAdminListen(), err)
	}
	a.token, a.made = &token, made
	return nil
}
