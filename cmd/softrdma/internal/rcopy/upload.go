package rcopy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"softrdma/internal/reason"
)

// syncSize is the number of bytes after which a file is synchronised with its
// storage. A later copy continues at a multiple of it, where the data survives a
// power failure. It also keeps the last synchronisation short, for which a client
// waits.
const syncSize = 32 << 20

// A directory is the place where clients may write.
type directory struct {
	path         string // absolute
	root         *os.Root
	unrestricted bool // clients may write to the whole file system

	mu    sync.Mutex
	busy  map[string]bool  // partial files that are being written
	whole map[string]int64 // lengths of those that were synchronised when a copy ended
}

func openDirectory(dir string) (*directory, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return &directory{path: abs, root: root, unrestricted: filepath.Dir(abs) == abs, busy: make(map[string]bool), whole: make(map[string]int64)}, nil
}

func (d *directory) close() { d.root.Close() }

// An upload is a file that is being received. Its content is in a partial file in the
// same directory, which is renamed when it is complete. So an existing file of that
// name stays intact until then.
type upload struct {
	dir     *directory
	name    string // final name
	partial string // the partial file
	perm    fs.FileMode
	keep    bool // a later copy may continue the partial file
	busy    bool // partial is reserved
	failed  bool // data may be missing from the storage, although it seems to be in the file
	file    *os.File
	size    int64 // bytes so far, those of an earlier copy included
	from    int64 // where this copy began
}

// open begins an upload. A name that leads out of the directory, even through a symbolic link,
// is refused with fs.ErrPermission. A key other than 0 identifies the current version of the
// source: an incomplete copy of it is continued.
func (d *directory) open(asked string, perm fs.FileMode, key uint64) (*upload, error) {
	name, err := d.resolve(asked)
	if err != nil {
		return nil, err
	}
	switch info, err := d.lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, d.refusal(asked, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: %w", asked, syscall.EISDIR)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return nil, fmt.Errorf("%s: expected a regular file, found %s: %w", asked, fileKind(info.Mode()), syscall.EINVAL)
	}
	u := &upload{dir: d, name: name, perm: perm}
	u.partial, u.keep = d.reserve(name, key)
	if u.busy = u.keep; !u.keep {
		u.partial = partialName(name, randomKey())
	}
	if err := u.begin(); err != nil {
		u.release()
		return nil, d.refusal(asked, err)
	}
	return u, nil
}

// resolve converts a client's name to a local one: relative to the directory, or
// absolute if clients may write everywhere.
func (d *directory) resolve(asked string) (string, error) {
	if err := checkName(asked); err != nil {
		return "", err
	}
	name := filepath.FromSlash(asked)
	switch {
	case name == "":
		return "", fmt.Errorf("empty name: %w", syscall.EINVAL)
	case d.unrestricted:
		return filepath.Join(d.path, name), nil
	case filepath.IsAbs(name):
		rel, err := filepath.Rel(d.path, name)
		if err != nil {
			return "", d.outside(asked)
		}
		name = rel
	}
	if !filepath.IsLocal(name) {
		return "", d.outside(asked)
	}
	return filepath.Clean(name), nil
}

func (d *directory) outside(asked string) error {
	return fmt.Errorf("%s is outside of %s: %w", asked, d.path, fs.ErrPermission)
}

// refusal returns the error of a name. os.Root has no error value for a name that leads
// out of it.
func (d *directory) refusal(asked string, err error) error {
	if strings.Contains(err.Error(), "escapes") {
		return fmt.Errorf("%s leads out of %s: %w", asked, d.path, fs.ErrPermission)
	}
	return err
}

// checkName refuses a name with control characters: printed, it could overwrite lines
// on a terminal or forge lines in a log.
func checkName(name string) error {
	for _, r := range name {
		if unicode.IsControl(r) {
			d := reason.Detail{Reason: reason.FileName, Expected: ' ', Found: uint64(r)}
			return fmt.Errorf("%q: %v: %v: %w", name, d.Reason, d, syscall.EINVAL)
		}
	}
	return nil
}

// partialName returns the name of a partial file. Its length does not depend on name.
func partialName(name string, key uint64) string {
	sum := sha256.Sum256([]byte(filepath.Base(name)))
	return filepath.Join(filepath.Dir(name), fmt.Sprintf(".rcopy-%x-%016x.part", sum[:8], key))
}

func randomKey() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// reserve reserves the partial file of a source, which only one copy at a time may use.
func (d *directory) reserve(name string, key uint64) (part string, ok bool) {
	part = partialName(name, key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if key == 0 || d.busy[part] {
		return "", false
	}
	d.busy[part] = true
	return part, true
}

func (u *upload) release() {
	if u.busy {
		u.dir.mu.Lock()
		delete(u.dir.busy, u.partial)
		u.dir.mu.Unlock()
	}
}

// begin opens the partial file and continues after the synchronised part.
func (u *upload) begin() (err error) {
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if info, err := u.dir.lstat(u.partial); u.keep && err == nil && info.Mode().IsRegular() {
		flags &^= os.O_EXCL
		// A full step is synchronised before the first byte after it is written.
		u.from = max(info.Size()-1, 0) / syncSize * syncSize
		if n := u.dir.synced(u.partial); n == info.Size() {
			u.from = n
		}
	}
	if u.file, err = u.dir.openFile(u.partial, flags, u.perm|0o600); err != nil {
		return err
	}
	if err = u.file.Truncate(u.from); err == nil {
		_, err = u.file.Seek(u.from, io.SeekStart)
	}
	if err != nil {
		u.file.Close()
		return err
	}
	u.size = u.from
	return nil
}

// receive writes n bytes from r. It returns io.EOF if there were fewer.
func (u *upload) receive(r io.Reader, n int64) error {
	buf := make([]byte, 256<<10)
	for n > 0 {
		part := min(n, syncSize-u.size%syncSize)
		k, err := io.CopyBuffer(struct{ io.Writer }{u.file}, io.LimitReader(r, part), buf)
		u.size += k
		n -= k
		if err == nil && k < part {
			err = io.EOF
		}
		if err == nil && n > 0 {
			err = u.sync()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sync synchronises the file with its storage. The system reports only once that it could not
// write data: another call may succeed without that data.
func (u *upload) sync() error {
	err := u.file.Sync()
	u.failed = u.failed || err != nil
	return err
}

// finish renames the file to its final name. When it returns nil the file is on
// storage.
func (u *upload) finish() error {
	err := u.file.Sync()
	if err == nil && u.perm&0o600 != 0o600 {
		var info fs.FileInfo
		if info, err = u.file.Stat(); err == nil {
			err = u.file.Chmod(info.Mode().Perm() &^ (0o600 &^ u.perm))
		}
	}
	if err = errors.Join(err, u.file.Close()); err == nil {
		err = u.dir.rename(u.partial, u.name)
	}
	if err != nil {
		_ = u.dir.remove(u.partial)
	} else {
		u.dir.syncDir(filepath.Dir(u.name))
	}
	u.release()
	return err
}

// synced returns the length of a partial file that was synchronised as a whole, or 0.
func (d *directory) synced(part string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.whole[part]
	delete(d.whole, part)
	return n
}

// abandon ends an incomplete upload. It keeps the part that a later copy can continue, all of it
// while the server runs.
func (u *upload) abandon() error {
	keeps := u.keep && u.size >= syncSize
	if keeps && !u.failed && u.file.Sync() == nil {
		u.dir.mu.Lock()
		u.dir.whole[u.partial] = u.size
		u.dir.mu.Unlock()
	}
	err := u.file.Close()
	if !keeps {
		err = errors.Join(err, u.dir.remove(u.partial))
	}
	u.release()
	return err
}

// path returns the file's path for messages.
func (u *upload) path() string {
	if u.dir.unrestricted {
		return u.name
	}
	return filepath.Join(u.dir.path, u.name)
}

// os.Root treats absolute symbolic links as leading out of it, even for /.

func (d *directory) lstat(name string) (fs.FileInfo, error) {
	if d.unrestricted {
		return os.Lstat(name)
	}
	return d.root.Lstat(name)
}

func (d *directory) openFile(name string, flags int, perm fs.FileMode) (*os.File, error) {
	if d.unrestricted {
		return os.OpenFile(name, flags, perm)
	}
	return d.root.OpenFile(name, flags, perm)
}

func (d *directory) rename(from, to string) error {
	if d.unrestricted {
		return os.Rename(from, to)
	}
	return d.root.Rename(from, to)
}

func (d *directory) remove(name string) error {
	if d.unrestricted {
		return os.Remove(name)
	}
	return d.root.Remove(name)
}

// syncDir synchronises a directory, which makes a rename in it permanent. If the
// system does not support that, the copy still succeeds.
func (d *directory) syncDir(name string) {
	if f, err := d.openFile(name, os.O_RDONLY, 0); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
