//go:build !linux

package adapter

import "runtime"

// yield offers the processor to another goroutine.
func yield() { runtime.Gosched() }
