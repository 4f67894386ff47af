//go:build !linux

package drive

import "runtime"

// coalesce offers the processor to others: sleeping takes milliseconds here.
func coalesce() { runtime.Gosched() }
