package server

import (
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/supervisor/layout"
)

// TestNoCardsSaysHowToRunWithout tells a person without cards what works on their box.
func TestNoCardsSaysHowToRunWithout(t *testing.T) {
	_, err := new(places).try(deck{none: "the driver is missing; install it."}, layout.Request{Model: "m"}, nil)
	if err == nil {
		t.Fatal("a model was placed on no cards")
	}
	for _, want := range []string{"model m needs cards", "install it. To run", "engine.device: cpu", "lmwarden demo"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q: %s", want, err)
		}
	}
}
