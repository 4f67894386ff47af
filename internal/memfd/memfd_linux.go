package memfd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// New maps zeroed memory of size bytes, a multiple of the page size, for reading and writing,
// and returns the descriptor of its file. /proc/PID/maps shows the name. If readOnly, no
// process can map it for writing after that. The caller unmaps the memory and closes the
// descriptor.
func New(name string, size int, readOnly bool) (mem []byte, fd int, err error) {
	if fd, err = create(name); err != nil {
		return nil, -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, -1, errors.Join(os.NewSyscallError("ftruncate", err), unix.Close(fd))
	}
	if mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, -1, errors.Join(os.NewSyscallError("mmap", err), unix.Close(fd))
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if readOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE // Linux 5.1; does not affect this earlier mapping
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, -1, errors.Join(os.NewSyscallError("fcntl F_ADD_SEALS", err), unix.Munmap(mem), unix.Close(fd))
	}
	return mem, fd, nil
}

// NewSparse returns the descriptor of a file of size bytes that uses memory only for pages
// that are written.
func NewSparse(name string, size int64) (fd int, err error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err == nil && l.Cur < uint64(size) { // SIGXFSZ would end the process
		return -1, fmt.Errorf("length of files (ulimit -f): expected at least %d, found %d: %w", size, l.Cur, unix.EFBIG)
	}
	if fd, err = create(name); err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, size); err != nil {
		return -1, errors.Join(os.NewSyscallError("ftruncate", err), unix.Close(fd))
	}
	return fd, nil
}

// create makes an empty file in memory. A system may require it to be non-executable, which
// needs Linux 6.3.
func create(name string) (fd int, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL); err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, flags)
	}
	return fd, err
}

// A Flaw is the reason why another process's memory is refused.
type Flaw struct {
	What            string // the property that the numbers describe
	Expected, Found uint64
}

// Check returns the size of another process's file. It returns nil if an access to its pages
// can never fail, whatever that process does to it: the file cannot shrink, and punched holes
// are allocated again. It refuses huge pages, for which the latter may fail.
func Check(fd int) (size uint64, flaw *Flaw, err error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return 0, nil, err
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	switch {
	case err != nil || fs.Type != unix.TMPFS_MAGIC:
		flaw = &Flaw{"type of its file system", unix.TMPFS_MAGIC, uint64(fs.Type)}
	case seals&unix.F_SEAL_SHRINK == 0:
		flaw = &Flaw{"seals", unix.F_SEAL_SHRINK, uint64(seals)}
	}
	return uint64(st.Size), flaw, nil
}
