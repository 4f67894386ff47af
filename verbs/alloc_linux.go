package verbs

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

const hugePageFlag = unix.MAP_HUGETLB

// hugePagesFrom is the size from which shared memory asks for transparent huge pages,
// which the system grants if shmem_enabled says so. Smaller memory would be rounded up.
const hugePagesFrom = 2 << 20

// mapShared maps memory that other processes can map by its descriptor. Nobody can make
// its file shorter: an access beyond the end would kill the process. Unless writable is true, other
// processes cannot write to it.
func mapShared(n int, writable bool) (buf []byte, fd int, err error) {
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	if fd, err = createMemory(); err != nil {
		return nil, -1, err
	}
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		buf, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, -1, errors.Join(err, unix.Close(fd))
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if !writable {
		seals |= unix.F_SEAL_FUTURE_WRITE // Linux 5.1; our own mapping is older than the seal
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, -1, errors.Join(err, unix.Munmap(buf), unix.Close(fd))
	}
	if n >= hugePagesFrom {
		_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // the kernel may have none
	}
	return buf, fd, nil
}

// createMemory makes an empty file in memory. Systems may demand that it is not
// executable, which Linux before 6.3 cannot say.
func createMemory() (fd int, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate("softrdma", flags|unix.MFD_NOEXEC_SEAL); err == unix.EINVAL {
		fd, err = unix.MemfdCreate("softrdma", flags)
	}
	return fd, err
}

// descriptorLimit returns how many descriptors the process may have.
func descriptorLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int64(min(l.Cur, 1<<30))
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
