// Package vector adds slices of numbers, with wide instructions if the processor has them. The
// results are bit for bit those of Go's own additions. It knows nothing of messages.
package vector

import (
	"reflect"
	"unsafe"
)

// Number is the constraint of the element types.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

const (
	// block is the number of bytes in an iteration of the wide loops.
	block = 128

	// stretch limits the bytes in one call of a wide loop, which the scheduler cannot
	// interrupt.
	stretch = 64 << 10
)

// Add sets dst[i] to left[i] + right[i]. Left and right are at least as long as dst. Dst may
// be left or right, and does not overlap them otherwise.
func Add[T Number](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	if add := adder(reflect.TypeFor[T]().Kind()); add != nil {
		var one T
		size := int(unsafe.Sizeof(one))
		for n := min(len(dst)*size, stretch) / block; n > 0; n = min(len(dst)*size, stretch) / block {
			add(unsafe.Pointer(&dst[0]), unsafe.Pointer(&left[0]), unsafe.Pointer(&right[0]), n)
			done := n * block / size
			dst, left, right = dst[done:], left[done:], right[done:]
		}
	}
	addEach(dst, left, right)
}

// addEach implements Add with Go's additions. It takes eight elements at a time through
// pointers to arrays, which need no bounds checks.
func addEach[T Number](dst, left, right []T) {
	for len(dst) >= 8 && len(left) >= 8 && len(right) >= 8 {
		d, l, r := (*[8]T)(dst), (*[8]T)(left), (*[8]T)(right)
		d[0], d[1], d[2], d[3] = l[0]+r[0], l[1]+r[1], l[2]+r[2], l[3]+r[3]
		d[4], d[5], d[6], d[7] = l[4]+r[4], l[5]+r[5], l[6]+r[6], l[7]+r[7]
		dst, left, right = dst[8:], left[8:], right[8:]
	}
	for i := range dst {
		dst[i] = left[i] + right[i]
	}
}
