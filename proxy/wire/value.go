package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
)

const (
	maxValue   = 256 // bytes of an id that is taken as it is; longer ones are hashed
	longValue  = 16  // bytes from which an id is believed to be unique on its own
	uuidLength = 36
	maxAgentID = 128 // bytes of an agent id that is taken as it is
)

// cleanValue applies the rules for the value of an id: trimmed; "" when it is
// empty, a word that stands for nothing, or a template that was never filled in;
// its SHA-256 in hex when it is long or not printable ASCII.
func cleanValue(v string) string {
	v = strings.TrimSpace(v)
	if v == "" || refusedWord(v) || templateLeftover(v) {
		return ""
	}
	if len(v) <= maxValue && printable(v) {
		return v
	}
	return hashedValue(v)
}

// cleanAgent applies them to the id of an agent within a session. It may be the name of a
// member of a team, so words that many conversations share are fine: only those count as
// absent that a program writes for nothing.
func cleanAgent(v string) string {
	v = strings.TrimSpace(v)
	switch {
	case v == "", strings.EqualFold(v, "null"), strings.EqualFold(v, "undefined"), templateLeftover(v):
		return ""
	case len(v) <= maxAgentID && printable(v):
		return v
	}
	return hashedValue(v)
}

// hashedValue stands for a value that cannot be taken as it is.
func hashedValue(v string) string {
	sum := sha256.Sum256([]byte(v))
	return hex.EncodeToString(sum[:])
}

// refusedWord says whether a value is a placeholder that many conversations share.
func refusedWord(v string) bool {
	if len(v) > len("undefined") {
		return false
	}
	switch strings.ToLower(v) {
	case "null", "undefined", "none", "default", "n/a", "0":
		return true
	}
	return false
}

// templateLeftover says whether a value still holds a variable: {{CHAT_ID}}, $CHAT
// or ${CHAT}.
func templateLeftover(v string) bool {
	if i := strings.Index(v, "{{"); i >= 0 && strings.Contains(v[i:], "}}") {
		return true
	}
	if v[0] != '$' || len(v) == 1 {
		return false
	}
	c := v[1]
	return c == '{' || c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// printable says whether all of v is printable ASCII.
func printable(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}

// isUUID says whether v has the form of a UUID.
func isUUID(v string) bool {
	if len(v) != uuidLength {
		return false
	}
	for i := range len(v) {
		c := v[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// isAddress says whether v is base64 of IP:port. Such a value was handed out by
// another router and names one of its upstreams, not a conversation.
func isAddress(v string) bool {
	if len(v) < 12 || len(v) > 64 || isUUID(v) {
		return false
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
	if err != nil {
		return false
	}
	_, err = netip.ParseAddrPort(string(raw))
	return err == nil
}

// keyText puts a clean value into its namespace. Long values are unique on their
// own and share one namespace, so that losing one header does not change the key;
// short ones keep their source.
func keyText(s Source, v string) string {
	if len(v) >= longValue || isUUID(v) {
		return "id:" + v
	}
	return s.String() + ":" + v
}

// Hash scopes the text of a key to a tenant and a model: the first 16 bytes of a
// SHA-256 over all three, with lengths in front so that no text can be moved from
// one part to another. Two tenants never share a pin, whatever ids they send. The
// tenant is its stable name, never a token; the model is the one that serves.
func Hash(tenant, model, key string) (out [16]byte) {
	var arr [512]byte
	b := arr[:0]
	for _, part := range [...]string{tenant, model, key} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(out[:], sum[:])
	return out
}
