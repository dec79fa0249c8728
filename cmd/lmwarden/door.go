package main

import (
	"fmt"
	"io"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// printQueue prints who waits at the door: in which place, for what, and for how long.
func (a *app) printQueue(w io.Writer, card *lmwardenv1.RoutingCard) {
	queue := card.GetQueue()
	if len(queue) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w)
	t := a.newTable(">place", "conversation", ">tokens", ">waited", "why")
	for _, h := range queue {
		t.add(count(h.GetPosition()), h.GetConversation(), tokens(h.GetTokens()), age(h.GetArrived(), a.now()), h.GetReason())
	}
	t.print(w)
	if more := int(card.GetHeld()) - len(queue); more > 0 {
		_, _ = fmt.Fprintf(w, "%s after them.\n", plural(more, "request waits", "requests wait"))
	}
}
