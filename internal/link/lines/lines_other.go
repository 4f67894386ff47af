//go:build !amd64 || race

package lines

import "unsafe"

// Copy copies n lines, at least one.
func Copy(dst, src *byte, n int) {
	copy(unsafe.Slice(dst, n*Size), unsafe.Slice(src, n*Size))
}

// Await does nothing: the stores of Copy are ordered by the Go memory model.
func Await() {}
