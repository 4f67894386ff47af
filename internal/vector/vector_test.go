package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"
)

// The wide loops give bit for bit the results of Go's additions, for each type, length,
// alignment and overlap that callers may use, and write nowhere else.
func TestSumsAreThoseOfGo(t *testing.T) {
	compare[int](t)
	compare[int8](t)
	compare[int16](t)
	compare[int32](t)
	compare[int64](t)
	compare[uint](t)
	compare[uint8](t)
	compare[uint16](t)
	compare[uint32](t)
	compare[uint64](t)
	compare[uintptr](t)
	compare[float32](t)
	compare[float64](t)
	compare[complex64](t)
	compare[complex128](t)
	compare[named](t)
}

type named float32

func compare[T Number](t *testing.T) {
	t.Run(fmt.Sprint(reflect.TypeFor[T]()), func(t *testing.T) {
		r := rand.NewChaCha8([32]byte{})
		for _, n := range []int{0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 20000} {
			for offset := range 3 {
				for same := range 3 {
					if n > 1000 && offset != same { // one pass for each overlap is enough
						continue
					}
					left, right, dst := numbers[T](r, n+8), numbers[T](r, n+8), numbers[T](r, n+8)
					switch same {
					case 1:
						dst = left
					case 2:
						dst = right
					}
					want := append([]T(nil), dst...)
					addEach(want[offset:offset+n], append([]T(nil), left[offset:]...), append([]T(nil), right[offset:]...))
					Add(dst[offset:offset+n], left[offset:], right[offset:])
					if string(raw(dst)) != string(raw(want)) {
						t.Fatalf("%d elements from %d, overlap %d: other bits than those of Go", n, offset, same)
					}
				}
			}
		}
	})
}

func raw[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(x[0])))
}

// numbers returns random bits, with some special floating-point values. Go does not specify
// which NaN the sum of two NaNs is, so there are none: infinities produce them.
func numbers[T Number](r *rand.ChaCha8, n int) []T {
	x := make([]T, n)
	b := raw(x)
	_, _ = r.Read(b) // never fails
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Float32, reflect.Complex64:
		for i := 0; i < len(b)/4; i++ {
			p := (*float32)(unsafe.Pointer(&b[i*4]))
			if i%7 == 0 || *p != *p {
				*p = special[i%len(special)]
			}
		}
	case reflect.Float64, reflect.Complex128:
		for i := 0; i < len(b)/8; i++ {
			p := (*float64)(unsafe.Pointer(&b[i*8]))
			if i%7 == 0 || *p != *p {
				*p = float64(special[i%len(special)])
			}
		}
	}
	return x
}

var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(1)), float32(math.Inf(-1))}

func BenchmarkAdd(b *testing.B) {
	const n = 64 << 10
	left, right := make([]float32, n), make([]float32, n)
	for _, f := range []struct {
		name string
		add  func(dst, left, right []float32)
	}{{"wide", Add[float32]}, {"each", addEach[float32]}} {
		b.Run(f.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				f.add(left, left, right)
			}
		})
	}
}
