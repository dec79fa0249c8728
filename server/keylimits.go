package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/auth"
	"github.com/lmwarden/lmwarden/server/store"
)

// everyKey stands for every key, and where no key is asked for, for all clients together.
const everyKey = auth.EveryKey

// keyLimits is what keys may take, as stated: in the configuration file, or through the
// API and kept in the store. Of two statements on one key the declared one counts and the
// stored one is kept.
type keyLimits struct {
	store *store.Store
	// keys that there are; limits may also be stated of others.
	keys *keyring
	// file that declares limits, for messages.
	file string
	// changed is called after each change, with no lock held.
	changed func()

	// write is held across the store's transaction. Readers never wait for it.
	write sync.Mutex
	mu    sync.RWMutex // guards stated
	// stated by name of the key. A value is never changed but replaced.
	stated map[string]statedLimits
}

// statedLimits is what is stated of one key.
type statedLimits struct {
	limits   *lmwardenv1.KeyLimits
	revision uint64 // 0 when nothing was ever stated through the API
	declared bool
}

// openKeyLimits reads all limits. Shadowed names the keys whose stored limits a declared
// one hides, broken those whose record cannot be read; they are as if nothing was stated.
func openKeyLimits(st *store.Store, keys *keyring, cfg *lmwardenv1.Config, file string, changed func()) (k *keyLimits, shadowed, broken []string, err error) {
	k = &keyLimits{store: st, keys: keys, file: or(file, "the configuration"), changed: changed, stated: make(map[string]statedLimits)}
	records, err := st.Keys()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, r := range records {
		limits := &lmwardenv1.KeyLimits{}
		if r.Broken != nil || proto.Unmarshal(r.Data, limits) != nil {
			broken = append(broken, r.Name)
			limits = &lmwardenv1.KeyLimits{}
		}
		k.stated[r.Name] = statedLimits{limits: limits, revision: r.Revision}
	}
	for _, d := range cfg.GetInferenceAuth().GetKeys() {
		before, stored := k.stated[d.GetName()]
		if stored {
			shadowed = append(shadowed, d.GetName())
		}
		k.stated[d.GetName()] = statedLimits{limits: d.GetLimits(), revision: before.revision, declared: true}
	}
	return k, shadowed, broken, nil
}

// names returns the names that limits can be stated of: "*" first, then those of the keys.
func (k *keyLimits) names() []string {
	tenants := slices.Sorted(maps.Values(k.keys.current()))
	return append([]string{everyKey}, slices.Compact(tenants)...)
}

// get returns what is stated of a key.
func (k *keyLimits) get(name string) statedLimits {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.stated[name]
}

// inForce returns the limits of a key with those of every key in the place of absent ones.
func (k *keyLimits) inForce(name string) *lmwardenv1.KeyLimits {
	out := &lmwardenv1.KeyLimits{}
	proto.Merge(out, k.get(everyKey).limits)
	if name != everyKey {
		proto.Merge(out, k.get(name).limits)
	}
	return out
}

// tenants returns what the proxy is told: the limits of each name that its keys go by.
// Without keys every client is nameless.
func (k *keyLimits) tenants() map[string]proxy.Limits {
	out := make(map[string]proxy.Limits)
	if len(k.keys.current()) == 0 {
		out[""] = limitsOf(k.inForce(everyKey))
		return out
	}
	for _, name := range k.names()[1:] {
		out[name] = limitsOf(k.inForce(name))
	}
	return out
}

// key returns a key for the API, or a refusal that names those that exist.
func (k *keyLimits) key(name string) (*lmwardenv1.Key, error) {
	if names := k.names(); !slices.Contains(names, name) {
		return nil, unknownKey(name, names)
	}
	return k.describe(name), nil
}

// describe returns a key that there is.
func (k *keyLimits) describe(name string) *lmwardenv1.Key {
	stated := k.get(name)
	out := &lmwardenv1.Key{Name: name, Limits: stated.limits, InForce: k.inForce(name), Revision: stated.revision}
	if out.Limits == nil {
		out.Limits = &lmwardenv1.KeyLimits{}
	}
	if stated.declared {
		out.DeclaredIn = k.file
	}
	return out
}

// update changes the limits of a key at the revision that the caller saw, 0 to skip the
// check. Change works on a copy; when it returns an error nothing is stored.
func (k *keyLimits) update(name string, seen uint64, change func(*lmwardenv1.KeyLimits) error) error {
	k.write.Lock()
	defer k.write.Unlock()
	key, err := k.key(name)
	switch {
	case err != nil:
		return err
	case key.GetDeclaredIn() != "":
		return declaredKey(name, key.GetDeclaredIn())
	case seen != 0 && seen != key.GetRevision():
		return &store.StaleError{Name: name, Seen: seen, Current: key.GetRevision()}
	}
	limits := proto.CloneOf(key.GetLimits())
	if err := change(limits); err != nil || proto.Equal(limits, key.GetLimits()) {
		return err
	}
	data, err := proto.Marshal(limits)
	if err != nil {
		return fmt.Errorf("the limits of key %s cannot be stored: %w", name, err)
	}
	revision, err := k.store.PutKey(name, seen, data)
	if err != nil {
		return fmt.Errorf("the limits of key %s were not changed: %w", name, err)
	}
	k.mu.Lock()
	k.stated[name] = statedLimits{limits: limits, revision: revision}
	k.mu.Unlock()
	k.changed()
	return nil
}

// limited is a message that states limits: those of a key, or of a model.
type limited interface {
	GetMaxConcurrentRequests() uint32
	GetMaxRequestsPerMinute() uint32
	GetMaxTokensPerMinute() uint32
	GetMaxBodyBytes() uint64
	GetMaxAnswerTokens() uint32
}

var (
	_ limited = (*lmwardenv1.KeyLimits)(nil)
	_ limited = (*lmwardenv1.ModelSpec)(nil)
)

// limitsOf returns the proxy's limits; absent is 0 on both sides.
func limitsOf(m limited) proxy.Limits {
	return proxy.Limits{
		Concurrent:        int(m.GetMaxConcurrentRequests()),
		RequestsPerMinute: int(m.GetMaxRequestsPerMinute()),
		TokensPerMinute:   int(m.GetMaxTokensPerMinute()),
		BodyBytes:         int64(min(m.GetMaxBodyBytes(), 1<<32)),
		MaxTokens:         int(m.GetMaxAnswerTokens()),
	}
}

// checkKeys returns what is wrong with the declared limits of keys.
func checkKeys(cfg *lmwardenv1.Config) error {
	var problems []error
	seen := make(map[string]bool)
	for _, k := range cfg.GetInferenceAuth().GetKeys() {
		if seen[k.GetName()] {
			problems = append(problems, fmt.Errorf("inference_auth.keys: %q is declared twice; put its limits together", k.GetName()))
		}
		seen[k.GetName()] = true
	}
	return errors.Join(problems...)
}

// unusedKeys returns a note for each declared limit that no key goes by.
func unusedKeys(cfg *lmwardenv1.Config, keys map[string]string) (notes []string) {
	names := slices.Sorted(maps.Values(keys))
	for _, k := range cfg.GetInferenceAuth().GetKeys() {
		if k.GetName() != everyKey && !slices.Contains(names, k.GetName()) {
			notes = append(notes, fmt.Sprintf("inference_auth.keys: no key of the keys file has the name %q, so its limits hold for nobody; the name of a key is the text after \" #\" on its line", k.GetName()))
		}
	}
	return notes
}
