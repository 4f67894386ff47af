package ninep

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hugelgupf/p9/fsimpl/templatefs"
	"github.com/hugelgupf/p9/p9"
)

// An attacher gives clients the root of a directory.
type attacher struct{ s *Server }

// Attach implements p9.Attacher.
func (a attacher) Attach() (p9.File, error) {
	return &file{s: a.s, session: new(session), path: "."}, nil
}

// A file is a file of the directory, which may be open.
type file struct {
	p9.DefaultWalkGetAttr
	templatefs.NoopFile // what is not supported

	s       *Server
	session *session
	path    string // in the root; p9 tells of renames

	mu    sync.Mutex
	file  *os.File
	write bool     // the file is open for writing
	names []string // of an open directory
}

func (f *file) root() *os.Root { return f.s.Root }

func (f *file) writable() error {
	if f.s.ReadOnly {
		return syscall.EROFS
	}
	return nil
}

func (f *file) child(name string) *file {
	return &file{s: f.s, session: f.session, path: path.Join(f.path, name)}
}

func (f *file) info() (p9.QID, os.FileInfo, error) {
	var info os.FileInfo
	var err error
	if f.file != nil {
		info, err = f.file.Stat()
	} else {
		info, err = f.root().Lstat(f.path)
	}
	if err != nil {
		return p9.QID{}, nil, err
	}
	return qidOf(info, f.path), info, nil
}

// Walk implements p9.File.
func (f *file) Walk(names []string) (qids []p9.QID, last p9.File, err error) {
	at := &file{s: f.s, session: f.session, path: f.path}
	for _, name := range names {
		at = at.child(name)
		qid, _, err := at.info()
		if err != nil {
			return nil, nil, err
		}
		qids = append(qids, qid)
	}
	return qids, at, nil
}

// GetAttr implements p9.File.
func (f *file) GetAttr(want p9.AttrMask) (p9.QID, p9.AttrMask, p9.Attr, error) {
	qid, info, err := f.info()
	if err != nil {
		return qid, p9.AttrMask{}, p9.Attr{}, err
	}
	return qid, want, attrOf(info), nil
}

// SetAttr implements p9.File.
func (f *file) SetAttr(valid p9.SetAttrMask, a p9.SetAttr) error {
	if err := f.writable(); err != nil {
		return err
	}
	if valid.Permissions {
		if err := f.chmod(permissionsOf(a.Permissions)); err != nil {
			return err
		}
	}
	if valid.UID || valid.GID {
		uid, gid := -1, -1
		if valid.UID {
			uid = int(a.UID)
		}
		if valid.GID {
			gid = int(a.GID)
		}
		if err := f.chown(uid, gid); err != nil {
			return err
		}
	}
	if valid.Size {
		if err := f.truncate(int64(a.Size)); err != nil {
			return err
		}
	}
	if !valid.ATime && !valid.MTime {
		return nil
	}
	now := time.Now()
	var atime, mtime time.Time // zero keeps the time
	if valid.ATime {
		if atime = now; valid.ATimeNotSystemTime {
			atime = time.Unix(int64(a.ATimeSeconds), int64(a.ATimeNanoSeconds))
		}
	}
	if valid.MTime {
		if mtime = now; valid.MTimeNotSystemTime {
			mtime = time.Unix(int64(a.MTimeSeconds), int64(a.MTimeNanoSeconds))
		}
	}
	return f.setTimes(atime, mtime)
}

// permissionsOf returns the bits of a mode that clients may set. Those that change the user and the group of a
// program are left out: clients may make no program that runs as the user of the server.
func permissionsOf(m p9.FileMode) fs.FileMode {
	mode := fs.FileMode(m) & fs.ModePerm
	if m&p9.Sticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// chmod, as chown, truncate and setTimes, changes the file that is open, whatever has its name meanwhile.
func (f *file) chmod(mode fs.FileMode) error {
	if f.file != nil {
		return f.file.Chmod(mode)
	}
	return f.root().Chmod(f.path, mode)
}

func (f *file) chown(uid, gid int) error {
	if f.file != nil {
		return f.file.Chown(uid, gid)
	}
	return f.root().Lchown(f.path, uid, gid)
}

func (f *file) truncate(size int64) error {
	if f.write {
		return f.file.Truncate(size)
	}
	if err := f.regular(); err != nil {
		return err
	}
	w, err := f.root().OpenFile(f.path, os.O_WRONLY|openFlags, 0)
	if err != nil {
		return err
	}
	if err = w.Truncate(size); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// regular refuses to open what is neither a file nor a directory.
func (f *file) regular() error {
	return plain(f.root().Stat(f.path))
}

func plain(info os.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = syscall.EPERM
	}
	return err
}

// flagsOf returns the flags of an open. The client appends by offsets of its own.
func flagsOf(mode p9.OpenFlags) (flags int, write bool) {
	const truncate = 0o1000
	switch mode & p9.OpenFlagsModeMask {
	case p9.WriteOnly:
		flags = os.O_WRONLY
	case p9.ReadWrite:
		flags = os.O_RDWR
	}
	if mode&truncate != 0 {
		flags |= os.O_TRUNC
	}
	return flags | openFlags, flags != os.O_RDONLY
}

// Open implements p9.File.
func (f *file) Open(mode p9.OpenFlags) (p9.QID, uint32, error) {
	flags, write := flagsOf(mode)
	if write {
		if err := f.writable(); err != nil {
			return p9.QID{}, 0, err
		}
	}
	if err := f.regular(); err != nil {
		return p9.QID{}, 0, err
	}
	o, err := f.root().OpenFile(f.path, flags, 0)
	if err != nil {
		return p9.QID{}, 0, err
	}
	if err := plain(o.Stat()); err != nil { // it was replaced meanwhile
		o.Close()
		return p9.QID{}, 0, err
	}
	f.file, f.write = o, write
	qid, _, err := f.info()
	return qid, 0, err
}

// Close implements p9.File.
func (f *file) Close() error {
	if f.file == nil {
		return nil
	}
	f.unlock(f.file)
	return f.file.Close()
}

// ReadAt implements p9.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// WriteAt implements p9.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) { return f.file.WriteAt(p, off) }

// FSync implements p9.File.
func (f *file) FSync() error { return f.file.Sync() }

// exclusive is the bit of an open by which it fails if the file exists.
const exclusive = 0o200

// Create implements p9.File. Linux's client calls it for every name that it has not found. So another client may
// have made the file meanwhile, and a program that does not ask for a new one gets that.
func (f *file) Create(name string, mode p9.OpenFlags, perm p9.FileMode, _ p9.UID, _ p9.GID) (p9.File, p9.QID, uint32, error) {
	if err := f.writable(); err != nil {
		return nil, p9.QID{}, 0, err
	}
	flags, write := flagsOf(mode)
	c := f.child(name)
	o, err := f.root().OpenFile(c.path, flags|os.O_CREATE|os.O_EXCL, fs.FileMode(perm)&fs.ModePerm)
	if errors.Is(err, fs.ErrExist) && mode&exclusive == 0 && c.exists() {
		qid, unit, err := c.Open(mode)
		if err != nil {
			return nil, p9.QID{}, 0, err
		}
		return c, qid, unit, nil
	}
	if err != nil {
		return nil, p9.QID{}, 0, err
	}
	c.file, c.write = o, write
	qid, _, err := c.info()
	if err != nil {
		o.Close()
		return nil, qid, 0, err
	}
	return c, qid, 0, nil
}

// exists reports whether there is a regular file of the name. A link to one is none: clients follow links.
func (f *file) exists() bool {
	info, err := f.root().Lstat(f.path)
	return err == nil && info.Mode().IsRegular()
}

// Mkdir implements p9.File.
func (f *file) Mkdir(name string, perm p9.FileMode, _ p9.UID, _ p9.GID) (p9.QID, error) {
	return f.make(name, func(at string) error { return f.root().Mkdir(at, fs.FileMode(perm)&fs.ModePerm) })
}

// Symlink implements p9.File. The target is the client's business, because no path of the server
// follows it out of the root.
func (f *file) Symlink(target, name string, _ p9.UID, _ p9.GID) (p9.QID, error) {
	return f.make(name, func(at string) error { return f.root().Symlink(target, at) })
}

// Link implements p9.File.
func (f *file) Link(target p9.File, name string) error {
	_, err := f.make(name, func(at string) error { return f.root().Link(target.(*file).path, at) })
	return err
}

// make makes a file of another kind.
func (f *file) make(name string, how func(at string) error) (p9.QID, error) {
	if err := f.writable(); err != nil {
		return p9.QID{}, err
	}
	c := f.child(name)
	if err := how(c.path); err != nil {
		return p9.QID{}, err
	}
	qid, _, err := c.info()
	return qid, err
}

// RenameAt implements p9.File.
func (f *file) RenameAt(from string, dir p9.File, to string) error {
	if err := f.writable(); err != nil {
		return err
	}
	return f.root().Rename(f.child(from).path, dir.(*file).child(to).path)
}

// Renamed implements p9.File.
func (f *file) Renamed(dir p9.File, name string) { f.path = dir.(*file).child(name).path }

// UnlinkAt implements p9.File.
func (f *file) UnlinkAt(name string, _ uint32) error {
	if err := f.writable(); err != nil {
		return err
	}
	return f.root().Remove(f.child(name).path)
}

// Readlink implements p9.File.
func (f *file) Readlink() (string, error) { return f.root().Readlink(f.path) }

// direntLen is the least that an entry takes in a reply.
const direntLen = 24

// Readdir implements p9.File. A file that disappears meanwhile is left out.
func (f *file) Readdir(offset uint64, count uint32) (p9.Dirents, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset == 0 {
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		names, err := f.file.Readdirnames(-1)
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		f.names = names
	}
	var entries p9.Dirents
	for i := offset; i < uint64(len(f.names)) && len(entries) <= int(count)/direntLen; i++ {
		c := f.child(f.names[i])
		if qid, _, err := c.info(); err == nil {
			entries = append(entries, p9.Dirent{QID: qid, Offset: i + 1, Type: qid.Type, Name: f.names[i]})
		}
	}
	return entries, nil
}

// StatFS implements p9.File.
func (f *file) StatFS() (p9.FSStat, error) { return statFS(f.root()) }
