package ninep

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hugelgupf/p9/p9"
	"golang.org/x/sys/unix"
)

// openFlags keep an open from waiting, should the file have become a FIFO.
const openFlags = unix.O_NONBLOCK

func qidOf(info os.FileInfo, _ string) p9.QID {
	q := p9.QID{Type: p9.ModeFromOS(info.Mode()).QIDType()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		q.Path = s.Ino
	}
	return q
}

// identity returns what names a file as long as it exists.
func identity(info os.FileInfo, path string) any {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{s.Dev, s.Ino}
	}
	return path
}

func attrOf(info os.FileInfo) p9.Attr {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return plainAttr(info)
	}
	return p9.Attr{
		Mode: p9.FileMode(s.Mode), UID: p9.UID(s.Uid), GID: p9.GID(s.Gid), NLink: p9.NLink(s.Nlink), RDev: p9.Dev(s.Rdev),
		Size: uint64(s.Size), BlockSize: uint64(s.Blksize), Blocks: uint64(s.Blocks),
		ATimeSeconds: uint64(s.Atim.Sec), ATimeNanoSeconds: uint64(s.Atim.Nsec),
		MTimeSeconds: uint64(s.Mtim.Sec), MTimeNanoSeconds: uint64(s.Mtim.Nsec),
		CTimeSeconds: uint64(s.Ctim.Sec), CTimeNanoSeconds: uint64(s.Ctim.Nsec),
	}
}

// setTimes sets times of the file itself, also of a symbolic link, and keeps those that are zero.
func (f *file) setTimes(atime, mtime time.Time) error {
	o := f.file
	if o == nil {
		var err error
		if o, err = f.root().OpenFile(f.path, unix.O_PATH|unix.O_NOFOLLOW, 0); err != nil {
			return err
		}
		defer o.Close()
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	for i, t := range []time.Time{atime, mtime} {
		if t.IsZero() {
			continue
		}
		var err error
		if times[i], err = unix.TimeToTimespec(t); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(o.Fd())), times, 0)
}

func statFS(root *os.Root) (st p9.FSStat, err error) {
	d, err := root.Open(".")
	if err != nil {
		return st, err
	}
	defer d.Close()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &s); err != nil {
		return st, err
	}
	return p9.FSStat{
		Type: uint32(s.Type), BlockSize: uint32(s.Bsize), Blocks: s.Blocks, BlocksFree: s.Bfree, BlocksAvailable: s.Bavail,
		Files: s.Files, FilesFree: s.Ffree, NameLength: uint32(s.Namelen),
	}, nil
}
