//go:build unix

package explain

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// makeSystemErrors returns the entries for the error numbers of this system.
func makeSystemErrors() (all []Entry) {
	for n := syscall.Errno(1); n < 256; n++ {
		name := unix.ErrnoName(n)
		if n == syscall.EOPNOTSUPP {
			name = "EOPNOTSUPP" // programs of libibverbs call it so; ENOTSUP is the same number on Linux
		}
		if name != "" {
			all = append(all, Entry{Kind: SystemError, Name: name, Number: int(n), Meaning: sentence(n.Error()), Clause: "errno(3)"})
		}
	}
	return all
}
