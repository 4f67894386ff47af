//go:build linux

// Package library puts the libraries of softrdma exec into files that programs can load.
//
// It owns the user's cache of large libraries, the checks that no other user can put a file
// there, and the memory that holds a library if no file system lets programs execute files. It
// never loads a library, and does not know its purpose.
package library

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A File is a library that programs of this user can load by its path, until Close.
type File struct {
	Path string
	file *os.File // keeps the file in existence; nil if nothing has to
}

// Close ends the use of the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Keep makes the cache keep the file for a time when it is not in use, because programs will load it by its
// path.
func (f *File) Keep(d time.Duration) error {
	until := time.Now().Add(d)
	return os.Chtimes(f.Path, until, until)
}

// Copy writes a library to a new file in dir. If dir is empty, or programs cannot execute files
// there, it keeps the library in memory instead.
func Copy(dir, name string, contents io.Reader) (*File, error) {
	if dir == "" || executable(dir) != nil {
		return inMemory(name, contents)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, contents)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return &File{Path: f.Name()}, nil
}

// inMemory returns a file without a name, which programs open by this process's descriptor.
func inMemory(name string, contents io.Reader) (*File, error) {
	const flags = unix.MFD_CLOEXEC
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
	if _, err = io.Copy(f, contents); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{f.Name(), f}, nil
}

// executable returns an error if programs cannot execute files below a path.
func executable(path string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if s.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system that is mounted noexec", path)
	}
	return nil
}
