package route

import "testing"

// sharing is the first turn of conversation n with a prompt of so many tokens, of which
// it shares the beginning with others.
func sharing(n, tokens int, hash uint64) *Request {
	r := sized(n, tokens)
	r.SharedHash = hash
	return r
}

// knowShared teaches a core the size of a shared prompt that somebody has sent.
func (b *box) knowShared(hash uint64, tokens int64) {
	for range sharedSamples {
		b.c.learnShared(b.c.shadow.shared.byHash[hash], tokens)
	}
}

// TestSharedPromptIsLearnedOnce learns the size of a prompt that two share: their places
// take it once between them from then on, and not once more each until their next turns.
func TestSharedPromptIsLearnedOnce(t *testing.T) {
	b := doorBox(t, 1, 100_000)
	b.arrive(sharing(1, 28_000, 1))
	b.arrive(sharing(2, 28_000, 1))
	b.arrive(sharing(3, 28_000, 2))
	b.knowShared(1, 20_000)
	if n := b.c.View(b.now).Replicas[0].AdmittedTokens; n != 20_000+2*8000+28_000 {
		t.Errorf("places take %d tokens, want 64,000", n)
	}
	checkInside(t, b.c)
}
