package supervisor

import (
	"errors"
	"syscall"
	"time"
)

// fullDiskWait is the longest time between two looks at a disk that is full.
const fullDiskWait = 30 * time.Second

// isFull says whether an error means that a disk, or somebody's share of it, is full.
// That passes without anything being wrong with an engine.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
