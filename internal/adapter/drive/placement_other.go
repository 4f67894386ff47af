//go:build !linux

package drive

import "runtime"

// yield yields the processor to another goroutine.
func (d *Driver) yield() { runtime.Gosched() }
