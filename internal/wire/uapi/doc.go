// Package uapi defines the messages between a program and the server of its devices.
// They travel on a Unix socket and carry the commands of Linux's rdma/ib_user_verbs.h,
// with the additions for the rxe provider (rdma_user_rxe.h). Package uverbs, the
// server, and package daemon, which finds servers, use it. The preloaded library has
// its own definitions, in C.
//
// It owns layouts and numbers, and the conversion of queue pair attributes and
// addresses to and from package qp. It executes no call.
package uapi

import "unsafe"

// Parse reads a C structure from the front of b.
func Parse[T any](b []byte) (v T, ok bool) {
	if len(b) < int(unsafe.Sizeof(v)) {
		return v, false
	}
	copy(Bytes(&v), b)
	return v, true
}

// Bytes is the memory of a C structure. T has no pointers and no padding.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Size is a structure's length in bytes.
func Size[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
