//go:build unix && !linux

package nfs

import (
	"os"
	"syscall"
)

// openFlags keep an open from waiting, should the file have become a FIFO.
const openFlags = syscall.O_NONBLOCK

// systemAttr fills in what the system knows of a file. It reports false if that is nothing.
func systemAttr(info os.FileInfo, a *attr) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		a.id = fileID{device: uint64(s.Dev), number: uint64(s.Ino)} //nolint:unconvert // types differ between systems
		a.links, a.uid, a.gid, a.used = uint32(s.Nlink), s.Uid, s.Gid, uint64(s.Blocks)*512
	}
	return ok
}
