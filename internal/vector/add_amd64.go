package vector

import (
	"reflect"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// adder returns the wide loop for elements of a kind, or nil. Complex numbers are added like
// pairs.
func adder(k reflect.Kind) func(dst, left, right unsafe.Pointer, blocks int) {
	if !cpu.X86.HasAVX2 {
		return nil
	}
	switch k {
	case reflect.Float32, reflect.Complex64:
		return addFloat32
	case reflect.Float64, reflect.Complex128:
		return addFloat64
	case reflect.Int32, reflect.Uint32:
		return addInt32
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return addInt64
	}
	return nil
}

// The wide loops add n blocks of elements. They need AVX2.

//go:noescape
func addFloat32(dst, left, right unsafe.Pointer, blocks int)

//go:noescape
func addFloat64(dst, left, right unsafe.Pointer, blocks int)

//go:noescape
func addInt32(dst, left, right unsafe.Pointer, blocks int)

//go:noescape
func addInt64(dst, left, right unsafe.Pointer, blocks int)
