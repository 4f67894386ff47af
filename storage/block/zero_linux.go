package block

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const directFlag = unix.O_DIRECT

// zeroRange makes zeros by fallocate. It reports whether the file system can.
func zeroRange(f *os.File, off, n int64, mayTrim bool) (bool, error) {
	mode := uint32(unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE)
	if mayTrim {
		mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if failed = unix.Fallocate(int(fd), mode, off, n); failed != unix.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(failed, unix.EOPNOTSUPP), errors.Is(failed, unix.ENODEV), errors.Is(failed, unix.EINVAL):
		return false, nil
	}
	return failed == nil, failed
}

// release gives the memory of zeros back to the system. It is that of a file, or private.
func release(b []byte) {
	if unix.Madvise(b, unix.MADV_REMOVE) != nil {
		_ = unix.Madvise(b, unix.MADV_DONTNEED) // the bytes are not read again before they are written
	}
}
