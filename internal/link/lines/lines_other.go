//go:build !amd64 || race

package lines

import "unsafe"

// Copy copies n lines, at least one.
func Copy(dst, src *byte, n int) {
	copy(unsafe.Slice(dst, n*Size), unsafe.Slice(src, n*Size))
}

// Await does nothing: the stores of Copy are in the order that the Go memory model gives them.
func Await() {}
