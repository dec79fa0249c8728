package proxy

import (
	"crypto/sha256"
	"sort"
	"strings"
	"time"
)

// table is a snapshot made ready for look-ups. It is never changed.
type table struct {
	snapshot *Snapshot
	named    map[string]*model // by name
	exact    map[string]*model // names and aliases
	wild     []wildcard        // longest first
	fallback *model            // serves unknown names; nil refuses them
	names    []string          // what a client may ask for, sorted, with wildcards last
	tenants  map[[sha256.Size]byte]string
	limiters map[string]*limiter // of every tenant, by its name
}

// wildcard is an alias that ends in *.
type wildcard struct {
	beginning string
	model     *model
}

// newTable prepares a snapshot. When two models claim a name, a name beats an alias
// and the earlier alias beats the later one.
func newTable(s *Snapshot, named map[string]*model, limiters map[string]*limiter) *table {
	t := &table{
		snapshot: s,
		named:    named,
		exact:    make(map[string]*model, len(named)),
		fallback: named[s.DefaultModel],
		limiters: limiters,
		tenants:  make(map[[sha256.Size]byte]string, len(s.Keys)),
	}
	for name, m := range named {
		t.exact[name] = m
	}
	var patterns []string
	for i := range s.Models {
		m := named[s.Models[i].Name]
		for _, alias := range s.Models[i].Aliases {
			if beginning, isWild := strings.CutSuffix(alias, "*"); isWild {
				t.wild = append(t.wild, wildcard{beginning, m})
				patterns = append(patterns, alias)
			} else if t.exact[alias] == nil {
				t.exact[alias] = m
			}
		}
	}
	sort.SliceStable(t.wild, func(i, j int) bool { return len(t.wild[i].beginning) > len(t.wild[j].beginning) })
	for name := range t.exact {
		t.names = append(t.names, name)
	}
	sort.Strings(t.names)
	t.names = append(t.names, patterns...)
	// Keys are compared by hash, so that the time of a look-up tells nothing about them.
	for key, tenant := range s.Keys {
		t.tenants[sha256.Sum256([]byte(key))] = tenant
	}
	return t
}

// lookup returns the model that serves a name, or nil.
func (t *table) lookup(name string) *model {
	if m := t.exact[name]; m != nil {
		return m
	}
	if name != "" {
		for _, w := range t.wild {
			if strings.HasPrefix(name, w.beginning) {
				return w.model
			}
		}
	}
	return t.fallback
}

// tenant returns whose key it is; false when it is nobody's. Without any keys
// everybody is the nameless tenant.
func (t *table) tenant(key string) (string, bool) {
	if len(t.tenants) == 0 {
		return "", true
	}
	name, ok := t.tenants[sha256.Sum256([]byte(key))]
	return name, ok
}

// apply takes over what a snapshot says of the model.
func (m *model) apply(now time.Time, spec *Model, add func(*model, ReplicaID, int) *replica) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec = spec
	m.limiter.set(spec.Limits)
	identity := spec.Identity
	identity.Header = m.sessionHeader
	m.identity.Store(&identity)
	for _, r := range m.known {
		r.index = -1
	}
	m.replicas = m.replicas[:0:0]
	for i := range spec.Replicas {
		s := &spec.Replicas[i]
		r := m.known[s.ID]
		if r == nil {
			r = add(m, s.ID, i)
			m.known[s.ID] = r
		}
		r.adopt(s, i)
		m.replicas = append(m.replicas, r)
	}
	m.sweep()
	// The replicas come first: changed settings may let requests go, and they must go to
	// what there is now.
	m.tellCore(now)
	m.core.SetSettings(now, spec.Routing)
	m.deliver(now)
}

// retire takes the model out of service, when it left the snapshot. Who waits is told.
// It says whether nothing is in flight any more, so that the model can be forgotten.
func (m *model) retire(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec = nil
	m.dismiss(errModelGone)
	for _, r := range m.known {
		r.index = -1
	}
	m.replicas = nil
	m.core.SetReplicas(now, nil)
	m.noteReady(now)
	m.sweep()
	return len(m.known) == 0
}

// dismiss lets everybody who waits go without a replica. The caller holds mu.
func (m *model) dismiss(reason error) {
	for ticket, v := range m.waiting {
		delete(m.waiting, ticket)
		m.metrics.held.Dec()
		v.err = reason
		close(v.ready)
	}
}

// sweep forgets the replicas that are in no snapshot and have nothing in flight. The
// caller holds mu.
func (m *model) sweep() {
	for id, r := range m.known {
		if r.index < 0 && r.inFlight() == 0 {
			r.transport.CloseIdleConnections()
			r.metrics.forget()
			delete(m.known, id)
		}
	}
}

// close cuts everything that the model still has, when the proxy ends. Nothing comes
// in afterwards.
func (m *model) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec, m.replicas = nil, nil
	m.core.SetReplicas(time.Now(), nil)
	m.dismiss(errClosing)
	m.noteReady(time.Now())
	for _, r := range m.known {
		r.cut(errClosing)
		r.transport.CloseIdleConnections()
	}
}
