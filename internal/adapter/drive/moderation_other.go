//go:build !linux

package drive

import "runtime"

// coalesce yields the processor to other goroutines: a sleep takes milliseconds on these
// systems.
func coalesce() { runtime.Gosched() }
