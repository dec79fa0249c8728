package route

// spillTo returns the replica that a turn goes to instead of its home, or none when
// it stays. The home is alive.
func (c *Core) spillTo(t *ticket, v *conv, d *Decision) int {
	home := int(v.home)
	if c.now.Spill == SpillPriced && c.learned.prefill.known() {
		return c.spillPriced(t, v, d)
	}
	crowded := c.replicas[home].inFlight >= c.threshold(home)
	if !crowded && v.inFlight < convInFlight {
		return none
	}
	c.weigh(t, d)
	c.terms[home].Eligible = false
	to := c.fewest()
	if to == none || c.replicas[to].inFlight >= c.replicas[home].inFlight {
		d.note = noteNoneFreer
		return none
	}
	if !crowded {
		d.note = noteOwnCrowd
	}
	return to
}

// spillPriced compares the wait at home with the wait plus a new prefill of this
// context elsewhere, in seconds.
func (c *Core) spillPriced(t *ticket, v *conv, d *Decision) int {
	c.weigh(t, d)
	home, best := int(v.home), int(v.home)
	for i := range c.terms[:c.present] {
		m := &c.terms[i]
		if !m.Eligible {
			continue
		}
		m.Price = c.price(t, i)
	}
	for i := range c.terms[:c.present] {
		m := &c.terms[i]
		if m.Eligible && (m.Price < c.terms[best].Price || m.Price == c.terms[best].Price && best != home && c.lighter(i, best)) {
			best = i
		}
	}
	d.note = notePriced
	if best == home {
		return none
	}
	return best
}

// price returns the seconds until replica i would give the first byte of a turn: the
// prompts that wait there for their prefill, this one's tokens that it does not hold,
// and a place in its batch when that is full.
func (c *Core) price(t *ticket, i int) float64 {
	r := &c.replicas[i]
	own := max(0, t.tokens-c.shadow.cached(c, t.conv, t.shared, i))
	p := float64(r.prefill+own) / c.learned.prefill.value
	if r.MaxNumSeqs > 0 && r.inFlight >= r.MaxNumSeqs {
		p += float64(r.inFlight-r.MaxNumSeqs+1) * c.learned.service.value / float64(r.MaxNumSeqs)
	}
	return p
}
