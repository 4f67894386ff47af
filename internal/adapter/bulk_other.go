//go:build !linux

package adapter

import "runtime"

// nap offers the processor to others: sleeping takes milliseconds here.
func (b *bulk) nap() { runtime.Gosched() }
