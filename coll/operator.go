package coll

import "softrdma/internal/vector"

// Integer is a type of integers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Real is a type of numbers with an order.
type Real interface {
	Integer | ~float32 | ~float64
}

// Number is a type of numbers.
type Number interface {
	Real | ~complex64 | ~complex128
}

// An Op combines elements of two members in a reduction. It must be associative: a ∘ (b ∘ c) is
// (a ∘ b) ∘ c, as far as the program cares.
type Op[T any] struct {
	// Combine sets dst[i] to left[i] ∘ right[i]. The slices have the same length. dst may be left
	// or right, and does not overlap them otherwise. Combine must not keep the slices.
	Combine func(dst, left, right []T)

	// Ordered means that left ∘ right and right ∘ left may differ. Elements are then combined in
	// the order of the ranks, which not all algorithms can.
	Ordered bool
}

// Each returns the Op that combines elements one by one by f, which is commutative.
func Each[T any](f func(left, right T) T) Op[T] {
	return Op[T]{Combine: func(dst, left, right []T) {
		left, right = left[:len(dst)], right[:len(dst)]
		for i := range dst {
			dst[i] = f(left[i], right[i])
		}
	}}
}

// Sum returns the Op that adds.
func Sum[T Number]() Op[T] { return Op[T]{Combine: vector.Add[T]} }

// Prod returns the Op that multiplies.
func Prod[T Number]() Op[T] { return Op[T]{Combine: prod[T]} }

// Min returns the Op that takes the lesser element, and NaN if one is NaN.
func Min[T Real]() Op[T] { return Op[T]{Combine: least[T]} }

// Max returns the Op that takes the greater element, and NaN if one is NaN.
func Max[T Real]() Op[T] { return Op[T]{Combine: greatest[T]} }

// And returns the Op of bitwise and.
func And[T Integer]() Op[T] { return Op[T]{Combine: and[T]} }

// Or returns the Op of bitwise or.
func Or[T Integer]() Op[T] { return Op[T]{Combine: or[T]} }

// Xor returns the Op of bitwise exclusive or.
func Xor[T Integer]() Op[T] { return Op[T]{Combine: xor[T]} }

// prod takes eight elements at a time through pointers to arrays, which need no check of bounds.
func prod[T Number](dst, left, right []T) {
	for len(dst) >= 8 && len(left) >= 8 && len(right) >= 8 {
		d, l, r := (*[8]T)(dst), (*[8]T)(left), (*[8]T)(right)
		d[0], d[1], d[2], d[3] = l[0]*r[0], l[1]*r[1], l[2]*r[2], l[3]*r[3]
		d[4], d[5], d[6], d[7] = l[4]*r[4], l[5]*r[5], l[6]*r[6], l[7]*r[7]
		dst, left, right = dst[8:], left[8:], right[8:]
	}
	for i := range dst {
		dst[i] = left[i] * right[i]
	}
}

func least[T Real](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = min(left[i], right[i])
	}
}

func greatest[T Real](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = max(left[i], right[i])
	}
}

func and[T Integer](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = left[i] & right[i]
	}
}

func or[T Integer](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = left[i] | right[i]
	}
}

func xor[T Integer](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = left[i] ^ right[i]
	}
}
