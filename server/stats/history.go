package stats

import "github.com/lmwarden/lmwarden/proxy"

// HistorySize is the number of requests that are remembered.
const HistorySize = 4096

// history is a ring of the latest requests with an index by id.
type history struct {
	records []proxy.Record // by sequence modulo HistorySize
	next    uint64         // sequence of the next request, from 0
	byID    map[string]uint64
}

func newHistory() *history {
	return &history{records: make([]proxy.Record, HistorySize), byID: make(map[string]uint64, HistorySize)}
}

func (h *history) add(r proxy.Record) {
	slot := &h.records[h.next%HistorySize]
	if old := slot.ID; h.next >= HistorySize && h.byID[old] == h.next-HistorySize {
		delete(h.byID, old)
	}
	*slot = r
	h.byID[r.ID] = h.next
	h.next++
}

func (h *history) get(id string) (proxy.Record, bool) {
	n, ok := h.byID[id]
	if !ok {
		return proxy.Record{}, false
	}
	return h.records[n%HistorySize], true
}

// page returns up to size requests that pass keep, newest first, with sequences
// below before (0 means from the newest), and the before of the next page, 0 when
// there is none.
func (h *history) page(before uint64, size int, keep func(*proxy.Record) bool) (page []proxy.Record, next uint64) {
	if before == 0 || before > h.next {
		before = h.next
	}
	oldest := uint64(0)
	if h.next > HistorySize {
		oldest = h.next - HistorySize
	}
	for n := before; n > oldest; n-- {
		r := &h.records[(n-1)%HistorySize]
		if !keep(r) {
			continue
		}
		if len(page) == size {
			return page, n
		}
		page = append(page, *r)
	}
	return page, 0
}
