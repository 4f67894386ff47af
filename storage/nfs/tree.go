package nfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5"
)

// A tree is the file system of a directory. Paths are relative to it, and cannot leave it.
type tree struct {
	root     *os.Root
	readOnly bool
	handles  handles
}

// A file is an open file of a tree. go-nfs does not close a file after a failure, so a failure closes it.
type file struct {
	*os.File
	name string
}

// Name implements billy.File: go-nfs looks the name up in the tree.
func (f *file) Name() string { return f.name }

// Seek implements billy.File.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	n, err := f.File.Seek(offset, whence)
	return n, f.closeAfter(err)
}

// Write implements billy.File.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.closeAfter(err)
}

// Truncate implements billy.File.
func (f *file) Truncate(size int64) error { return f.closeAfter(f.File.Truncate(size)) }

func (f *file) closeAfter(err error) error {
	if err != nil {
		_ = f.Close() // the caller gets the first error
	}
	return err
}

// Lock implements billy.File. Nothing calls it.
func (f *file) Lock() error { return billy.ErrNotSupported }

// Unlock implements billy.File.
func (f *file) Unlock() error { return billy.ErrNotSupported }

// local returns a path as os.Root takes it.
func local(name string) string {
	if name = strings.Trim(path.Clean("/"+name), "/"); name == "" {
		return "."
	}
	return name
}

// Create implements billy.Filesystem. A file that exists keeps its contents: RFC 1813 3.3.8 sets
// attributes of it, of which the size may be one.
func (t *tree) Create(name string) (billy.File, error) {
	return t.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
}

// Open implements billy.Filesystem.
func (t *tree) Open(name string) (billy.File, error) { return t.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements billy.Filesystem.
func (t *tree) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	name = local(name)
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0 {
		if err := t.writable(); err != nil {
			return nil, err
		}
	}
	if info, err := t.root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	f, err := t.root.OpenFile(name, flag|openFlags, perm)
	if err != nil {
		return nil, err
	}
	return &file{f, name}, nil
}

func (t *tree) writable() error {
	if t.readOnly {
		return syscall.EROFS
	}
	return nil
}

// Stat implements billy.Filesystem.
func (t *tree) Stat(name string) (os.FileInfo, error) { return t.root.Stat(local(name)) }

// Lstat implements billy.Filesystem.
func (t *tree) Lstat(name string) (os.FileInfo, error) { return t.root.Lstat(local(name)) }

// Rename implements billy.Filesystem.
func (t *tree) Rename(from, to string) error {
	if err := t.writable(); err != nil {
		return err
	}
	from, to = local(from), local(to)
	replaced, missing := identify(t.root, to)
	if err := t.root.Rename(from, to); err != nil {
		return err
	}
	if now, err := identify(t.root, to); missing == nil && err == nil && now != replaced {
		t.handles.removed(replaced, to)
	}
	t.handles.renamed(from, to)
	return nil
}

// Remove implements billy.Filesystem.
func (t *tree) Remove(name string) error {
	if err := t.writable(); err != nil {
		return err
	}
	name = local(name)
	id, missing := identify(t.root, name)
	if err := t.root.Remove(name); err != nil {
		return err
	}
	if missing == nil {
		t.handles.removed(id, name)
	}
	return nil
}

// Join implements billy.Filesystem.
func (t *tree) Join(elem ...string) string { return path.Join(elem...) }

// TempFile implements billy.Filesystem. Nothing calls it.
func (t *tree) TempFile(string, string) (billy.File, error) { return nil, billy.ErrNotSupported }

// ReadDir implements billy.Filesystem. A file that disappears meanwhile is left out.
func (t *tree) ReadDir(name string) ([]os.FileInfo, error) {
	name = local(name)
	d, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	infos := make([]os.FileInfo, 0, len(names))
	for _, n := range names {
		info, err := t.root.Lstat(path.Join(name, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// MkdirAll implements billy.Filesystem.
func (t *tree) MkdirAll(name string, perm os.FileMode) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.MkdirAll(local(name), perm)
}

// Symlink implements billy.Filesystem. The target is the client's business, because no path of the
// server follows it out of the tree.
func (t *tree) Symlink(target, link string) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.Symlink(target, local(link))
}

// Readlink implements billy.Filesystem.
func (t *tree) Readlink(link string) (string, error) { return t.root.Readlink(local(link)) }

// Chroot implements billy.Filesystem. Nothing calls it.
func (t *tree) Chroot(string) (billy.Filesystem, error) { return nil, billy.ErrNotSupported }

// Root implements billy.Filesystem.
func (t *tree) Root() string { return "/" }

// Capabilities implements billy.Capable.
func (t *tree) Capabilities() billy.Capability {
	c := billy.ReadCapability | billy.SeekCapability
	if !t.readOnly {
		c |= billy.WriteCapability | billy.ReadAndWriteCapability | billy.TruncateCapability
	}
	return c
}

// Chmod implements billy.Change.
func (t *tree) Chmod(name string, mode os.FileMode) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.Chmod(local(name), mode)
}

// Lchown implements billy.Change.
func (t *tree) Lchown(name string, uid, gid int) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.Lchown(local(name), uid, gid)
}

// Chown implements billy.Change.
func (t *tree) Chown(name string, uid, gid int) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.Chown(local(name), uid, gid)
}

// Chtimes implements billy.Change.
func (t *tree) Chtimes(name string, atime, mtime time.Time) error {
	if err := t.writable(); err != nil {
		return err
	}
	return t.root.Chtimes(local(name), atime, mtime)
}
