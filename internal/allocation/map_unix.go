//go:build unix

package allocation

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapMemory(n int, huge bool) ([]byte, error) {
	page, flags := os.Getpagesize(), unix.MAP_ANON|unix.MAP_PRIVATE
	if huge {
		var err error
		if page, err = hugePageSize(); err != nil {
			return nil, err
		}
		flags |= hugePageFlag
	}
	n = (n + page - 1) / page * page
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, flags)
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
