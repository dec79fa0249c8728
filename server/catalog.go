package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/store"
)

// entry is one model as desired. It is never changed: a change puts another entry in
// its place.
type entry struct {
	// model has no status.
	model *lmwardenv1.Model
	// broken says why the stored record cannot be read; the model then has a name and
	// nothing else.
	broken error
}

func (e *entry) name() string { return e.model.GetName() }

// runs says whether replicas of the model are wanted.
func (e *entry) runs() bool { return e.broken == nil && e.model.GetRunning() }

// catalog is what is desired: the models of the configuration file and those of the
// store. Of two with one name the declared one counts and the stored one is kept.
type catalog struct {
	store *store.Store
	// changed is called after each change, with no lock held.
	changed func()

	// write is held across the store's transaction, so that the names that a change
	// was checked against still hold when it is stored. Readers never wait for it.
	write sync.Mutex
	mu    sync.RWMutex // guards entries
	// entries by name.
	entries map[string]*entry
}

// openCatalog reads all models. Shadowed names the stored models that a declared one
// hides.
func openCatalog(st *store.Store, cfg *lmwardenv1.Config, file string, changed func()) (c *catalog, shadowed []string, err error) {
	c = &catalog{store: st, changed: changed, entries: make(map[string]*entry)}
	records, err := st.Models()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range records {
		c.entries[r.Name] = decodeEntry(r)
	}
	for _, d := range cfg.GetModels() {
		if c.entries[d.GetName()] != nil {
			shadowed = append(shadowed, d.GetName())
		}
		c.entries[d.GetName()] = &entry{model: &lmwardenv1.Model{
			Name:       d.GetName(),
			Spec:       d.GetSpec(),
			Routing:    d.GetRouting(),
			Revision:   1,
			Running:    !d.GetStopped(),
			DeclaredIn: or(file, "the configuration"),
		}}
	}
	return c, shadowed, nil
}

func decodeEntry(r store.Record) *entry {
	m := &lmwardenv1.Model{}
	err := r.Broken
	if err == nil {
		err = proto.Unmarshal(r.Data, m)
	}
	if err == nil && m.GetName() != r.Name {
		err = fmt.Errorf("the record is that of model %q", m.GetName())
	}
	if err != nil {
		return &entry{model: &lmwardenv1.Model{Name: r.Name}, broken: err}
	}
	m.Revision = r.Revision
	return &entry{model: m}
}

// list returns all entries by name.
func (c *catalog) list() []*entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []*entry
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		out = append(out, c.entries[name])
	}
	return out
}

func (c *catalog) names() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.entries))
}

// get returns the entry of a name, or a refusal that names those that exist.
func (c *catalog) get(name string) (*entry, error) {
	c.mu.RLock()
	e := c.entries[name]
	c.mu.RUnlock()
	if e == nil {
		return nil, unknownModel(name, c.names())
	}
	return e, nil
}

// create stores a new model.
func (c *catalog) create(m *lmwardenv1.Model) (*entry, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.checkNames(m); err != nil {
		return nil, err
	}
	m = proto.CloneOf(m)
	m.Created = timestamppb.Now()
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	m.Revision, err = c.store.CreateModel(m.GetName(), data)
	if errors.Is(err, store.ErrExists) {
		return nil, nameTaken(m.GetName(), m.GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("model %s was not stored: %w", m.GetName(), err)
	}
	return c.swap(m.GetName(), &entry{model: m}), nil
}

// update changes a model at the revision that the caller saw, 0 to skip the check.
// Change works on a copy; when it returns an error nothing is stored.
func (c *catalog) update(name string, seen uint64, change func(*lmwardenv1.Model) error) (*entry, error) {
	c.write.Lock()
	defer c.write.Unlock()
	e, err := c.get(name)
	if err != nil {
		return nil, err
	}
	if err := writable(e, seen); err != nil {
		return nil, err
	}
	m := proto.CloneOf(e.model)
	if err := change(m); err != nil {
		return nil, err
	}
	if proto.Equal(m, e.model) {
		return e, nil
	}
	if err := c.checkNames(m); err != nil {
		return nil, err
	}
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	if m.Revision, err = c.store.UpdateModel(name, seen, data); err != nil {
		return nil, fmt.Errorf("model %s was not changed: %w", name, err)
	}
	return c.swap(name, &entry{model: m}), nil
}

// setRunning changes whether a model is meant to run. Of a declared model the change
// is kept in memory only: its file decides again when the daemon starts.
func (c *catalog) setRunning(name string, seen uint64, running bool) (*entry, error) {
	e, err := c.get(name)
	if err != nil {
		return nil, err
	}
	if e.model.GetDeclaredIn() == "" {
		return c.update(name, seen, func(m *lmwardenv1.Model) error {
			m.Running = running
			return nil
		})
	}
	c.write.Lock()
	defer c.write.Unlock()
	if e, err = c.get(name); err != nil || e.model.GetRunning() == running {
		return e, err
	}
	m := proto.CloneOf(e.model)
	m.Running = running
	m.Revision++
	return c.swap(name, &entry{model: m}), nil
}

// remove forgets a model, also a broken one.
func (c *catalog) remove(name string, seen uint64) error {
	c.write.Lock()
	defer c.write.Unlock()
	e, err := c.get(name)
	if err != nil {
		return err
	}
	if e.broken == nil {
		if err := writable(e, seen); err != nil {
			return err
		}
	}
	if err := c.store.DeleteModel(name, seen); err != nil {
		return fmt.Errorf("model %s was not deleted: %w", name, err)
	}
	c.swap(name, nil)
	return nil
}

// writable refuses what cannot be changed, and a stale revision before any work.
func writable(e *entry, seen uint64) error {
	switch {
	case e.broken != nil:
		return brokenModel(e.name(), e.broken)
	case e.model.GetDeclaredIn() != "":
		return declaredModel(e.name(), e.model.GetDeclaredIn())
	case seen != 0 && seen != e.model.GetRevision():
		return &store.StaleError{Name: e.name(), Seen: seen, Current: e.model.GetRevision()}
	}
	return nil
}

// checkNames refuses a model whose name or alias another model has.
func (c *catalog) checkNames(m *lmwardenv1.Model) error {
	mine := append([]string{m.GetName()}, m.GetSpec().GetAliases()...)
	for _, e := range c.list() {
		if e.name() == m.GetName() {
			continue
		}
		for _, name := range append([]string{e.name()}, e.model.GetSpec().GetAliases()...) {
			if slices.Contains(mine, name) {
				return nameTaken(name, e.name())
			}
		}
	}
	return nil
}

// swap puts an entry in place, nil to remove it, and tells of it.
func (c *catalog) swap(name string, e *entry) *entry {
	c.mu.Lock()
	if e == nil {
		delete(c.entries, name)
	} else {
		c.entries[name] = e
	}
	c.mu.Unlock()
	c.changed()
	return e
}

// encode returns the bytes that are stored: without what the store or the daemon
// states anew.
func encode(m *lmwardenv1.Model) ([]byte, error) {
	m = proto.CloneOf(m)
	m.Revision, m.Status, m.DeclaredIn = 0, nil, ""
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("model %s cannot be stored: %w", m.GetName(), err)
	}
	return data, nil
}
