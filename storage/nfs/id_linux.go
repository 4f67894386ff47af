package nfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags keep an open from waiting, should the file have become a FIFO.
const openFlags = unix.O_NONBLOCK

// identify returns the identity of the file at a path. It does not follow a link.
func identify(root *os.Root, path string) (id fileID, err error) {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ELOOP) {
		return statID(root, path)
	}
	if err != nil {
		return id, err
	}
	defer f.Close()
	c, err := f.SyscallConn()
	if err != nil {
		return id, err
	}
	var s unix.Statx_t
	e := c.Control(func(fd uintptr) {
		err = unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &s)
	})
	if err = errors.Join(e, err); err != nil {
		return id, err
	}
	id = fileID{device: unix.Mkdev(s.Dev_major, s.Dev_minor), number: s.Ino}
	if s.Mask&unix.STATX_BTIME != 0 {
		id.birth = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return id, nil
}
