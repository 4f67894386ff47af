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
	dir          string // absolute
	root         *os.Root
	unrestricted bool // clients may write to the whole file system

	mu   sync.Mutex
	busy map[string]bool // partial files that are being written
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
	return &directory{dir: abs, root: root, unrestricted: filepath.Dir(abs) == abs, busy: make(map[string]bool)}, nil
}

func (in *directory) close() { in.root.Close() }

// An upload is a file that is being received. Its content is in a partial file in the
// same directory, which is renamed when it is complete. So an existing file of that
// name stays intact until then.
type upload struct {
	in      *directory
	name    string // final name
	partial string // the partial file
	perm    fs.FileMode
	keep    bool // a later copy may continue the partial file
	file    *os.File
	size    int64 // bytes so far, those of an earlier copy included
	from    int64 // where this copy began
}

// open begins an upload. A name that leads out of the directory, also through a
// symbolic link, is refused with fs.ErrPermission. A key other than 0 identifies the
// present version of the source: an incomplete copy of it is continued.
func (in *directory) open(asked string, perm fs.FileMode, key uint64) (*upload, error) {
	name, err := in.resolve(asked)
	if err != nil {
		return nil, err
	}
	switch info, err := in.lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, in.refusal(asked, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: %w", asked, syscall.EISDIR)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return nil, fmt.Errorf("%s: expected a regular file, found %s: %w", asked, fileKind(info.Mode()), syscall.EINVAL)
	}
	d := &upload{in: in, name: name, perm: perm}
	d.partial, d.keep = in.reserve(name, key)
	if !d.keep {
		d.partial = partialName(name, randomKey())
	}
	if err := d.begin(); err != nil {
		d.release()
		return nil, in.refusal(asked, err)
	}
	return d, nil
}

// resolve converts a client's name to a local one: relative to the directory, or
// absolute if clients may write everywhere.
func (in *directory) resolve(asked string) (string, error) {
	if err := checkName(asked); err != nil {
		return "", err
	}
	name := filepath.FromSlash(asked)
	switch {
	case name == "":
		return "", fmt.Errorf("empty name: %w", syscall.EINVAL)
	case in.unrestricted:
		return filepath.Join(in.dir, name), nil
	case filepath.IsAbs(name):
		rel, err := filepath.Rel(in.dir, name)
		if err != nil {
			return "", in.outside(asked)
		}
		name = rel
	}
	if !filepath.IsLocal(name) {
		return "", in.outside(asked)
	}
	return filepath.Clean(name), nil
}

func (in *directory) outside(asked string) error {
	return fmt.Errorf("%s is outside of %s: %w", asked, in.dir, fs.ErrPermission)
}

// refusal returns the error of a name. os.Root has no error value for a name that leads
// out of it.
func (in *directory) refusal(asked string, err error) error {
	if strings.Contains(err.Error(), "escapes") {
		return fmt.Errorf("%s leads out of %s: %w", asked, in.dir, fs.ErrPermission)
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
func (in *directory) reserve(name string, key uint64) (part string, ok bool) {
	part = partialName(name, key)
	in.mu.Lock()
	defer in.mu.Unlock()
	if key == 0 || in.busy[part] {
		return "", false
	}
	in.busy[part] = true
	return part, true
}

func (d *upload) release() {
	if d.keep {
		d.in.mu.Lock()
		delete(d.in.busy, d.partial)
		d.in.mu.Unlock()
	}
}

// begin opens the partial file and continues after the synchronised part.
func (d *upload) begin() (err error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if info, err := d.in.lstat(d.partial); d.keep && err == nil && info.Mode().IsRegular() {
		flags &^= os.O_EXCL
		// A full step is synchronised before the first byte after it is written.
		d.from = max(info.Size()-1, 0) / syncSize * syncSize
	}
	if d.file, err = d.in.openFile(d.partial, flags, d.perm|0o200); err != nil {
		return err
	}
	if err = d.file.Truncate(d.from); err == nil {
		_, err = d.file.Seek(d.from, io.SeekStart)
	}
	if err != nil {
		d.file.Close()
		return err
	}
	d.size = d.from
	return nil
}

// receive writes n bytes from r. It returns io.EOF if there were fewer.
func (d *upload) receive(r io.Reader, n int64) error {
	buf := make([]byte, 256<<10)
	for n > 0 {
		part := min(n, syncSize-d.size%syncSize)
		k, err := io.CopyBuffer(struct{ io.Writer }{d.file}, io.LimitReader(r, part), buf)
		d.size += k
		n -= k
		if err == nil && k < part {
			err = io.EOF
		}
		if err == nil && n > 0 {
			err = d.file.Sync()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish renames the file to its final name. When it returns nil the file is on
// storage.
func (d *upload) finish() error {
	err := d.file.Sync()
	if err == nil && d.perm&0o200 == 0 {
		var info fs.FileInfo
		if info, err = d.file.Stat(); err == nil {
			err = d.file.Chmod(info.Mode().Perm() &^ 0o200)
		}
	}
	if err = errors.Join(err, d.file.Close()); err == nil {
		err = d.in.rename(d.partial, d.name)
	}
	if err != nil {
		_ = d.in.remove(d.partial)
	} else {
		d.in.syncDir(filepath.Dir(d.name))
	}
	d.release()
	return err
}

// abandon ends an incomplete upload. It keeps the part that a later copy can continue.
func (d *upload) abandon() error {
	err := d.file.Close()
	if !d.keep || d.size < syncSize {
		err = errors.Join(err, d.in.remove(d.partial))
	}
	d.release()
	return err
}

// path returns the file's path for messages.
func (d *upload) path() string {
	if d.in.unrestricted {
		return d.name
	}
	return filepath.Join(d.in.dir, d.name)
}

// os.Root treats absolute symbolic links as leading out of it, even for /.

func (in *directory) lstat(name string) (fs.FileInfo, error) {
	if in.unrestricted {
		return os.Lstat(name)
	}
	return in.root.Lstat(name)
}

func (in *directory) openFile(name string, flags int, perm fs.FileMode) (*os.File, error) {
	if in.unrestricted {
		return os.OpenFile(name, flags, perm)
	}
	return in.root.OpenFile(name, flags, perm)
}

func (in *directory) rename(from, to string) error {
	if in.unrestricted {
		return os.Rename(from, to)
	}
	return in.root.Rename(from, to)
}

func (in *directory) remove(name string) error {
	if in.unrestricted {
		return os.Remove(name)
	}
	return in.root.Remove(name)
}

// syncDir synchronises a directory, which makes a rename in it permanent. If the
// system does not support that, the copy still succeeds.
func (in *directory) syncDir(name string) {
	if f, err := in.openFile(name, os.O_RDONLY, 0); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
