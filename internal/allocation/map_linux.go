package allocation

import (
	"bufio"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"softrdma/internal/memfd"
	"softrdma/internal/reason"
)

const hugePageFlag = unix.MAP_HUGETLB

// hugePagesFrom is the size from which shared memory asks for transparent huge pages,
// which the system grants if shmem_enabled says so. Smaller memory would be rounded up.
const hugePagesFrom = 2 << 20

// mapShared maps memory that other processes can map by its descriptor, and cannot write to.
func mapShared(n int) (buf []byte, fd int, err error) {
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	if buf, fd, err = memfd.New("softrdma-memory", n, true); err != nil {
		return nil, -1, err
	}
	if n >= hugePagesFrom {
		_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // fails if the kernel has none
	}
	return buf, fd, nil
}

// descriptorLimit returns how many descriptors the process may have.
func descriptorLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int64(min(l.Cur, 1<<30))
}

// closeShared closes a descriptor of mapShared unless it is -1.
func closeShared(fd int) error {
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// hugePageSize returns the system's default size of huge pages in bytes.
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
