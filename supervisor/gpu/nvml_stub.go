//go:build !linux || !cgo

package gpu

import (
	"context"
	"fmt"
)

// New returns a reader that says why it cannot read.
func New(Options) Reader { return unavailable{} }

type unavailable struct{}

func (unavailable) Read(context.Context) (Inventory, error) {
	return Inventory{}, fmt.Errorf("%w: this program was built without cgo or not for Linux; build it with CGO_ENABLED=1", ErrUnavailable)
}
