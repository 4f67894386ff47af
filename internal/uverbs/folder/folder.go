//go:build linux

// Package folder has the directories in which softrdma exec puts what its programs need: libraries, the
// socket of its server and the server's sysfs tree.
//
// It owns their names and the locks that show that they are in use, and removes those of execs that were
// killed. It knows nothing of their contents, except that a server's socket is called Socket.
package folder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Socket is the name of a server's socket in its directory.
const Socket = "socket"

// bootID is the file with the number of this boot of the kernel.
const bootID = "/proc/sys/kernel/random/boot_id"

// prefix begins the names of directories that were made since this kernel started. Another host may share
// the file system without seeing the locks, so it must not touch these directories. The prefix is empty if
// the kernel has no boot ID.
func prefix() string {
	id, err := os.ReadFile(bootID)
	if err != nil || len(id) < 8 {
		return ""
	}
	return "softrdma-" + string(id[:8]) + "-"
}

// A Folder is a directory of this process. Its users hold a shared lock of it (flock), which the kernel
// releases when they end.
type Folder struct {
	Path string
	lock *os.File
}

// New makes a directory in parent, which only this user can enter. The caller makes the socket in it
// afterwards.
func New(parent string) (*Folder, error) {
	begin := prefix()
	if begin == "" {
		begin = "softrdma-"
	}
	path, err := os.MkdirTemp(parent, begin)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: path}
	if f.lock, err = os.Open(path); err == nil {
		// Flock waits for a moment if Clean is looking at the directory. It fails on a file system without
		// locks, whose directories Clean leaves alone.
		_ = unix.Flock(int(f.lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return f, nil
}

// Close removes the directory with everything in it.
func (f *Folder) Close() error { return errors.Join(os.RemoveAll(f.Path), f.lock.Close()) }

// Hold keeps the directory of a server's socket until the file is closed, also if the server's process
// is killed. It returns nil for a directory that Clean leaves alone.
func Hold(socket string) (*os.File, error) {
	begin, dir := prefix(), filepath.Dir(socket)
	if begin == "" || !strings.HasPrefix(filepath.Base(dir), begin) {
		return nil, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil { // it is being removed
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Clean removes the directories in parent that are not in use any more, and returns their paths: those of
// this user whose lock is free and that have a socket in them. A directory without a socket may have the
// library of a daemon's programs.
func Clean(parent string) (removed []string) {
	begin := prefix()
	d, err := os.Open(parent)
	if err != nil || begin == "" {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // those that were read before an error
	for _, name := range names {
		if path := filepath.Join(parent, name); strings.HasPrefix(name, begin) && clean(path) {
			removed = append(removed, path)
		}
	}
	return removed
}

// clean removes a directory unless it is in use.
func clean(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var dir, socket unix.Stat_t
	if unix.Fstat(fd, &dir) != nil || dir.Uid != uint32(os.Geteuid()) {
		return false
	}
	// The maker of a directory locks it before there is a socket in it.
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	if unix.Fstatat(fd, Socket, &socket, unix.AT_SYMLINK_NOFOLLOW) != nil || socket.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	return os.RemoveAll(path) == nil
}
