package nfs

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An object is a file, a directory or a link that is held by a descriptor (O_PATH). What is done to an
// object is done to that one, whatever its name is by then. Names that are given to its methods are those
// of entries of a directory.
type object struct {
	at   attr  // as it was opened
	node *node // nil if it has no handle
	fd   int
}

// openObject opens the object at a path of a root. It does not follow a link.
func openObject(root *os.Root, path string) (*object, error) {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return held(fd)
}

// held returns an object of a descriptor, which it owns.
func held(fd int) (*object, error) {
	o := &object{fd: fd}
	a, err := o.stat()
	if err != nil {
		o.close()
		return nil, err
	}
	o.at = a
	return o, nil
}

func (o *object) close() { _ = unix.Close(o.fd) }

// link is a path that leads to the object itself.
func (o *object) self() string { return "/proc/self/fd/" + strconv.Itoa(o.fd) }

// child opens an entry.
func (o *object) child(name string) (*object, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(o.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	return held(fd)
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (o *object) stat() (a attr, err error) {
	var s unix.Statx_t
	if err = unix.Statx(o.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &s); err != nil {
		return a, err
	}
	at := func(t unix.StatxTimestamp) timestamp { return timestamp{t.Sec, t.Nsec} }
	a = attr{
		id: fileID{device: unix.Mkdev(s.Dev_major, s.Dev_minor), number: s.Ino}, mode: uint32(s.Mode) & 0o7777, links: s.Nlink, uid: s.Uid, gid: s.Gid,
		size: s.Size, used: s.Blocks * 512, major: s.Rdev_major, minor: s.Rdev_minor, atime: at(s.Atime), mtime: at(s.Mtime), ctime: at(s.Ctime),
	}
	if s.Mask&unix.STATX_BTIME != 0 {
		a.id.birth = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	a.kind = map[uint16]uint32{
		unix.S_IFDIR: kindDirectory, unix.S_IFBLK: kindBlock, unix.S_IFCHR: kindCharacter,
		unix.S_IFLNK: kindLink, unix.S_IFSOCK: kindSocket, unix.S_IFIFO: kindFIFO,
	}[s.Mode&unix.S_IFMT]
	if a.kind == 0 {
		a.kind = kindFile
	}
	return a, nil
}

// open opens a regular file.
func (o *object) open(read, write bool) (*os.File, error) {
	if err := o.openable(); err != nil {
		return nil, err
	}
	flags := unix.O_RDONLY
	switch {
	case read && write:
		flags = unix.O_RDWR
	case write:
		flags = unix.O_WRONLY
	}
	return os.OpenFile(o.self(), flags, 0)
}

func (o *object) chmod(mode uint32) error { return unix.Chmod(o.self(), mode) }

func (o *object) chown(uid, gid int) error {
	return unix.Fchownat(o.fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

func (o *object) setTimes(atime, mtime setTime) error {
	of := func(t setTime) unix.Timespec {
		switch t.how {
		case serverTime:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case clientTime:
			return unix.NsecToTimespec(t.at.sec*1e9 + int64(t.at.nsec))
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, o.self(), []unix.Timespec{of(atime), of(mtime)}, 0)
}

// may reports whether the server's user may access the object: bits are those of access(2).
func (o *object) may(bits uint32) bool { return unix.Access(o.self(), bits) == nil }

func (o *object) readlink() (string, error) {
	b := make([]byte, maxPath)
	n, err := unix.Readlinkat(o.fd, "", b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// create makes an empty file that did not exist.
func (o *object) create(name string, mode uint32) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(o.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func (o *object) mkdir(name string, mode uint32) error { return unix.Mkdirat(o.fd, name, mode) }

func (o *object) symlink(target, name string) error { return unix.Symlinkat(target, o.fd, name) }

// mknod makes a FIFO or a socket.
func (o *object) mknod(name string, kind, mode uint32) error {
	switch kind {
	case kindFIFO:
		return unix.Mknodat(o.fd, name, unix.S_IFIFO|mode, 0)
	case kindSocket:
		return unix.Mknodat(o.fd, name, unix.S_IFSOCK|mode, 0)
	}
	return errNotSupported
}

func (o *object) remove(name string, directory bool) error {
	if directory {
		return unix.Unlinkat(o.fd, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(o.fd, name, 0)
}

func (o *object) rename(from string, dir *object, to string) error {
	return unix.Renameat(o.fd, from, dir.fd, to)
}

// link makes another name of an object.
func (o *object) link(file *object, name string) error {
	return unix.Linkat(unix.AT_FDCWD, file.self(), o.fd, name, unix.AT_SYMLINK_FOLLOW)
}

// list calls each with the entries of a directory from a cookie on, which is 0 or was given with the
// entry before. It ends when each returns false. The cookies are the file system's own.
func (o *object) list(cookie uint64, each func(name string, number, cookie uint64) bool) error {
	fd, err := retry(func() (int, error) { return unix.Open(o.self(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if cookie != 0 {
		if _, err := unix.Seek(fd, int64(cookie), 0); err != nil {
			return errBadCookie
		}
	}
	const header = 19 // number, cookie, length, kind
	b := make([]byte, 32<<10)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, b) })
		if err != nil || n == 0 {
			return err
		}
		for rest := b[:n]; len(rest) >= header; {
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			if size < header || size > len(rest) {
				return errIO
			}
			name := unix.ByteSliceToString(rest[header:size])
			if !each(name, binary.NativeEndian.Uint64(rest), binary.NativeEndian.Uint64(rest[8:])) {
				return nil
			}
			rest = rest[size:]
		}
	}
}

// space returns the space of the file system.
func (o *object) space() (s space, err error) {
	var st unix.Statfs_t
	if err = unix.Fstatfs(o.fd, &st); err != nil {
		return s, err
	}
	block := uint64(st.Bsize)
	return space{st.Blocks * block, st.Bfree * block, st.Bavail * block, st.Files, st.Ffree, st.Ffree}, nil
}
