//go:build linux

package library

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileMode is the mode of cached libraries, and dirMode that of their directory.
const (
	fileMode = 0o500
	dirMode  = 0o700
)

// A Cache is a directory of libraries that belongs only to this user.
//
// A library that other users could write would run in this user's programs. So a cache is used
// only if no user but this one and root can change anything on the path to it, and a file only
// if it belongs to this user, is closed to others and has the expected length. Its contents
// are compared with their SHA-256 when they are written. No other user can have changed them
// later.
type Cache struct{ dir string } // without symbolic links

// OpenCache returns the cache in a directory, which it creates if necessary.
func OpenCache(dir string) (*Cache, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("cache directory: expected an absolute path, found %q", dir)
	}
	existing := dir // the existing part of the path
	for {
		_, err := os.Lstat(existing)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		existing = filepath.Dir(existing)
	}
	if _, err := resolve(existing); err != nil { // before creating anything in it
		return nil, err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	dir, err := resolve(dir)
	if err != nil {
		return nil, err
	}
	s, err := stat(dir)
	switch {
	case err != nil:
		return nil, err
	case int(s.Uid) != os.Geteuid() || s.Mode&0o7777 != dirMode:
		return nil, fmt.Errorf("%s: expected a directory of user %d with mode %#o, found user %d and mode %#o",
			dir, os.Geteuid(), dirMode, s.Uid, s.Mode&0o7777)
	}
	if err := executable(dir); err != nil {
		return nil, err
	}
	return &Cache{dir}, nil
}

// resolve returns a path without symbolic links, or an error if a user other than this one and
// root can replace a part of it.
func resolve(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	for at := path; ; at = filepath.Dir(at) {
		s, err := stat(at)
		if err != nil {
			return "", err
		}
		if s.Uid != 0 && int(s.Uid) != os.Geteuid() {
			return "", fmt.Errorf("%s: expected a directory of user %d or root, found user %d", at, os.Geteuid(), s.Uid)
		}
		if s.Mode&unix.S_IFMT != unix.S_IFDIR {
			return "", fmt.Errorf("%s is no directory", at)
		}
		if s.Mode&0o022 != 0 && s.Mode&unix.S_ISVTX == 0 {
			return "", fmt.Errorf("%s: others can write to it (mode %#o)", at, s.Mode&0o7777)
		}
		if at == filepath.Dir(at) {
			return path, nil
		}
	}
}

func stat(path string) (s unix.Stat_t, err error) {
	if err = unix.Lstat(path, &s); err != nil {
		err = &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return s, err
}

// Library returns the cached copy of a library, which it creates from contents if necessary.
// Sum is the SHA-256 of the contents in hexadecimal. Library then removes unused copies with
// other contents.
func (c *Cache) Library(name, sum string, contents fs.File) (*File, error) {
	info, err := contents.Stat()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, name+"-"+sum+".so")
	f, err := use(path, info.Size())
	if err == nil {
		return f, nil
	}
	if err := c.write(path, name, sum, contents); err != nil {
		return nil, err
	}
	c.clean(name, path)
	return use(path, info.Size())
}

// use opens a cached file if it is valid. Its lock keeps clean from removing it.
func use(path string, size int64) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	err = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.Fstat(int(f.Fd()), &s))
	if err == nil && (s.Mode != unix.S_IFREG|fileMode || int(s.Uid) != os.Geteuid() || s.Size != size || s.Nlink == 0) {
		err = fmt.Errorf("%s: expected a file of user %d with mode %#o and %d bytes, found user %d, mode %#o and %d bytes",
			path, os.Geteuid(), fileMode, size, s.Uid, s.Mode&0o7777, s.Size)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{path, f}, nil
}

// write creates a file of the contents, which gets its name when it is complete.
func (c *Cache) write(path, name, sum string, contents io.Reader) (err error) {
	f, err := os.CreateTemp(c.dir, name+"-*.new")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return err
	}
	h := sha256.New()
	if _, err = io.Copy(io.MultiWriter(f, h), contents); err != nil {
		return err
	}
	if found := hex.EncodeToString(h.Sum(nil)); found != sum {
		return fmt.Errorf("%s: expected contents with SHA-256 %s, found %s", name, sum, found)
	}
	if err = f.Chmod(fileMode); err != nil {
		return err
	}
	if err = f.Sync(); err != nil { // a name without contents would survive a power failure
		return err
	}
	return os.Rename(f.Name(), path)
}

// clean removes unused copies of a library with other contents. Copies that are in use or kept
// (File.Keep) are removed another time.
func (c *Cache) clean(name, path string) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		other := filepath.Join(c.dir, e.Name())
		if other == path || !strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		f, err := os.OpenFile(other, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		st, err := f.Stat()
		if err == nil && !st.ModTime().After(time.Now()) && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(other)
		}
		_ = f.Close()
	}
}
