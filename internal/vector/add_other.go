//go:build !amd64

package vector

import (
	"reflect"
	"unsafe"
)

// adder returns no loop: Go's own additions are used.
func adder(reflect.Kind) func(dst, left, right unsafe.Pointer, blocks int) { return nil }
