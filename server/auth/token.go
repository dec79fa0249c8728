package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect/v2"
)

// minTokenLength is the shortest token that is accepted, in bytes: a shorter one can
// be guessed.
const minTokenLength = 16

// Token is a secret that is compared in constant time. Only its hash is kept.
type Token struct{ sum [sha256.Size]byte }

// NewToken returns the token for a secret.
func NewToken(secret string) Token { return Token{sha256.Sum256([]byte(secret))} }

// Matches says whether the secret is the token's.
func (t Token) Matches(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// LoadToken reads the token of a file. The error wraps fs.ErrNotExist when there is
// none.
func LoadToken(path string) (Token, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Token{}, fmt.Errorf("the admin token cannot be read: %w", err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < minTokenLength {
		return Token{}, fmt.Errorf("the admin token in %s has %d characters; write one of at least %d, or remove the file to have one made", path, len(secret), minTokenLength)
	}
	return NewToken(secret), nil
}

// EnsureToken reads the token of a file and makes it, mode 0600, when there is none.
// Made holds the new secret, to be shown once, and is empty when the file existed.
func EnsureToken(path string) (token Token, made string, err error) {
	token, err = LoadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, "", err
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return Token{}, "", fmt.Errorf("no randomness for an admin token: %w", err)
	}
	secret := base64.RawURLEncoding.EncodeToString(raw)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Token{}, "", fmt.Errorf("the admin token cannot be written: %w", err)
	}
	// O_EXCL: a file that appeared meanwhile is somebody's token, not ours to replace.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Token{}, "", fmt.Errorf("the admin token cannot be written: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Token{}, "", fmt.Errorf("the admin token cannot be written to %s: %w", path, err)
	}
	return NewToken(secret), secret, nil
}

// RequireToken returns an interceptor that refuses calls without the token in
// "Authorization: Bearer TOKEN". It runs before the request is decoded.
func RequireToken(t Token) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			info, ok := connect.CallInfoForServerContext(ctx)
			if !ok || !t.Matches(Bearer(info.RequestHeader().Get("Authorization"))) {
				return connect.NewError(connect.CodeUnauthenticated,
					"this daemon asks for its admin token; send it as \"Authorization: Bearer TOKEN\", or set LMWARDEN_TOKEN for the command line")
			}
			return next(ctx, spec, stream)
		}
	}
}

// Bearer returns the secret of an Authorization header, or an empty text.
func Bearer(header string) string {
	scheme, secret, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}
