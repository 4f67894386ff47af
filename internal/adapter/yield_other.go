//go:build !linux

package adapter

import "runtime"

// yield offers the processor to another goroutine.
func (l *lane) yield() { runtime.Gosched() }
