package verbs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"softrdma/internal/reason"

	"golang.org/x/sys/unix"
)

const hugePageFlag = unix.MAP_HUGETLB

// mapShared maps memory that a daemon can map as well, by a descriptor: nobody
// can make it shorter, so that neither dies of it.
func mapShared(n int) (buf []byte, fd int, err error) {
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	if fd, err = unix.MemfdCreate("softrdma", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, -1, err
	}
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		buf, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, -1, errors.Join(err, unix.Close(fd))
	}
	return buf, fd, nil
}

// closeShared closes what mapShared gave, -1 for nothing.
func closeShared(fd int) error {
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// hugePageSize is the system's default size of huge pages in bytes.
func hugePageSize() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int
		if n, _ := fmt.Sscanf(s.Text(), "Hugepagesize: %d kB", &kb); n == 1 {
			return kb << 10, nil
		}
	}
	return 0, reason.NotSupported("the kernel has no huge pages (no Hugepagesize in /proc/meminfo)")
}
