//go:build !linux

package nfs

import (
	"errors"
	"hash/fnv"
	"os"
	"path"
	"slices"
	"time"
)

// An object is a file, a directory or a link. Directories are held by a descriptor, and others by that of
// their directory and their name: when a file is opened, it is compared with the object.
type object struct {
	at   attr  // as it was opened
	node *node // nil if it has no handle

	top  *os.Root
	path string   // in top
	root *os.Root // the directory, or the one that the object is in
	name string   // in root
	info os.FileInfo
}

// openObject opens the object at a path of a root. It does not follow a link.
func openObject(top *os.Root, at string) (*object, error) {
	info, err := top.Lstat(at)
	if err != nil {
		return nil, err
	}
	o := &object{top: top, path: at, name: ".", info: info}
	dir := at
	if !info.IsDir() {
		dir, o.name = path.Dir(at), path.Base(at)
	}
	if o.root, err = top.OpenRoot(dir); err != nil {
		return nil, err
	}
	if o.at, err = o.stat(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *object) close() { _ = o.root.Close() }

// child opens an entry.
func (o *object) child(name string) (*object, error) {
	return openObject(o.top, path.Join(o.path, name))
}

func (o *object) stat() (attr, error) {
	info, err := o.root.Lstat(o.name)
	if err != nil {
		return attr{}, err
	}
	if !os.SameFile(info, o.info) {
		return attr{}, errStale
	}
	m, t := info.Mode(), info.ModTime()
	at := timestamp{t.Unix(), uint32(t.Nanosecond())}
	a := attr{
		kind: kindFile, mode: uint32(m.Perm()), links: 1, size: uint64(info.Size()), used: uint64(info.Size()),
		atime: at, mtime: at, ctime: at,
	}
	switch {
	case m.IsDir():
		a.kind = kindDirectory
	case m&os.ModeSymlink != 0:
		a.kind = kindLink
	case m&os.ModeSocket != 0:
		a.kind = kindSocket
	case m&os.ModeNamedPipe != 0:
		a.kind = kindFIFO
	case m&os.ModeCharDevice != 0:
		a.kind = kindCharacter
	case m&os.ModeDevice != 0:
		a.kind = kindBlock
	}
	if !systemAttr(info, &a) { // the system has no numbers of files
		h := fnv.New64()
		_, _ = h.Write([]byte(o.path)) // never fails
		a.id = fileID{number: h.Sum64()}
	}
	return a, nil
}

// open opens a regular file.
func (o *object) open(read, write bool) (*os.File, error) {
	if err := o.openable(); err != nil {
		return nil, err
	}
	flags := os.O_RDONLY
	switch {
	case read && write:
		flags = os.O_RDWR
	case write:
		flags = os.O_WRONLY
	}
	f, err := o.root.OpenFile(o.name, flags|openFlags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, o.info) {
		err = errStale
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (o *object) chmod(mode uint32) error { return o.root.Chmod(o.name, os.FileMode(mode).Perm()) }

func (o *object) chown(uid, gid int) error { return o.root.Lchown(o.name, uid, gid) }

func (o *object) setTimes(atime, mtime setTime) error {
	of := func(t setTime) time.Time {
		switch t.how {
		case serverTime:
			return time.Now()
		case clientTime:
			return time.Unix(t.at.sec, int64(t.at.nsec))
		}
		return time.Time{} // keeps the time
	}
	return o.root.Chtimes(o.name, of(atime), of(mtime))
}

// may reports whether any user may access the object: bits are those of access(2).
func (o *object) may(bits uint32) bool { return o.at.mode&(bits|bits<<3|bits<<6) != 0 }

func (o *object) readlink() (string, error) { return o.root.Readlink(o.name) }

// create makes an empty file that did not exist.
func (o *object) create(name string, mode uint32) error {
	f, err := o.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(mode).Perm())
	if err != nil {
		return err
	}
	return f.Close()
}

func (o *object) mkdir(name string, mode uint32) error {
	return o.root.Mkdir(name, os.FileMode(mode).Perm())
}

func (o *object) symlink(target, name string) error { return o.root.Symlink(target, name) }

func (o *object) mknod(string, uint32, uint32) error { return errNotSupported }

func (o *object) remove(name string, directory bool) error {
	info, err := o.root.Lstat(name)
	switch {
	case err != nil:
		return err
	case directory && !info.IsDir():
		return errNotDirectory
	case !directory && info.IsDir():
		return errIsDirectory
	}
	return o.root.Remove(name)
}

func (o *object) rename(from string, dir *object, to string) error {
	return o.top.Rename(path.Join(o.path, from), path.Join(dir.path, to))
}

// link makes another name of an object.
func (o *object) link(file *object, name string) error {
	return o.top.Link(file.path, path.Join(o.path, name))
}

// list calls each with the entries of a directory from a cookie on, which is 0 or was given with the
// entry before. It ends when each returns false. Cookies are sums of names, so they outlive changes.
func (o *object) list(cookie uint64, each func(name string, number, cookie uint64) bool) error {
	d, err := o.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	sum := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // never fails
		return h.Sum64() | 1
	}
	names = append(names, ".", "..")
	slices.SortFunc(names, func(a, b string) int {
		if x, y := sum(a), sum(b); x < y {
			return -1
		} else if x > y {
			return 1
		}
		return 0
	})
	for _, name := range names {
		at := sum(name)
		if at <= cookie {
			continue
		}
		var number uint64
		if c, err := o.child(name); err == nil {
			number = c.at.id.number
			c.close()
		}
		if !each(name, number, at) {
			return nil
		}
	}
	return nil
}

// space returns nothing: 0 means unknown to most clients.
func (o *object) space() (space, error) { return space{}, nil }
