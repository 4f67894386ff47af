//go:build !linux

package drive

import "runtime"

// yield offers the processor to another goroutine.
func (d *Driver) yield() { runtime.Gosched() }
