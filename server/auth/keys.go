package auth

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// EveryKey stands for every key where limits are set; no key has this name.
const EveryKey = "*"

// ReadKeys reads the keys that the inference endpoint accepts, one a line, each with
// the stable name of its tenant: the text after " #" on its line, or "key-" and the
// first 8 hex digits of the key's hash. Empty lines and lines that begin with # are
// left out. A file without a key, with the same key twice, or with a key of the name "*",
// is an error that names the line.
func ReadKeys(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the keys of the inference endpoint cannot be read: %w", err)
	}
	defer f.Close()
	keys := make(map[string]string)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, name, _ := strings.Cut(line, " #")
		key, name = strings.TrimSpace(key), strings.TrimSpace(name)
		if strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("%s line %d: a key holds no space; write a tenant's name after \" #\"", path, n)
		}
		if _, twice := keys[key]; twice {
			return nil, fmt.Errorf("%s line %d: this key is already on an earlier line; remove one of them", path, n)
		}
		if name == EveryKey {
			return nil, fmt.Errorf("%s line %d: a key cannot have the name %q, which stands for every key where limits are set; give it another name or none", path, n, name)
		}
		if name == "" {
			sum := sha256.Sum256([]byte(key))
			name = "key-" + hex.EncodeToString(sum[:4])
		}
		keys[key] = name
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the keys of the inference endpoint cannot be read from %s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no key; write one key a line", path)
	}
	return keys, nil
}
