//go:build unix

package nfs

import (
	"os"
	"syscall"
)

// infoID returns the identity of a file without its birth.
func infoID(info os.FileInfo, _ string) fileID {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{device: uint64(s.Dev), number: uint64(s.Ino)} //nolint:unconvert // types differ between systems
}
