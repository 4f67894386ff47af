//go:build !amd64

package vector

import (
	"reflect"
	"unsafe"
)

// adder returns nil: addEach is used.
func adder(reflect.Kind) func(dst, left, right unsafe.Pointer, blocks int) { return nil }
