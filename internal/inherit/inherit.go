// Package inherit lists descriptors that a child process forked by the program's C code must
// not keep: a socket of a shared address keeps the address in use, whichever process has the
// descriptor. The child of a fork in C cannot run Go. So the list is in memory that C code
// reads there.
package inherit

import "sync"

var (
	mu    sync.Mutex
	table []int32 // descriptors plus 1; 0 marks a free entry
)

// Into makes t the list. It has room for the descriptors of all devices, and is zero.
func Into(t []int32) {
	mu.Lock()
	defer mu.Unlock()
	table = t
}

// Add adds open descriptors to the list, if there is one.
func Add(fds ...int) {
	for _, fd := range fds {
		replace(0, int32(fd+1))
	}
}

// Remove removes descriptors. Call it before they are closed, because their numbers may be
// reused at once.
func Remove(fds ...int) {
	for _, fd := range fds {
		replace(int32(fd+1), 0)
	}
}

func replace(old, by int32) {
	mu.Lock()
	defer mu.Unlock()
	for i := range table {
		if table[i] == old {
			table[i] = by
			return
		}
	}
}
