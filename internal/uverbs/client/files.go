//go:build linux

package client

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// A Kind is a device file that programs find.
type Kind struct {
	Rdev    uint64
	Open    func(f *File) (Service, error)
	Private bool // only root and the server's user open it, as a file of mode 0600
	Socket  bool // the library reads from the file's pipe, which is a socket (uapi.ReplySocket)
}

// Files are the open device files of all programs.
type Files struct {
	Runtime *Runtime
	Kinds   map[string]*Kind // by the names of their device files

	mu     sync.Mutex // taken after a file's lock, and nothing after it
	open   map[uint64]*File
	closed bool
}

// NewFiles makes the table of a server, which adds the kinds.
func NewFiles(r *Runtime) *Files {
	return &Files{Runtime: r, Kinds: make(map[string]*Kind), open: make(map[uint64]*File)}
}

// Open opens a device file. The program gets a descriptor, and the file ends when that
// is closed.
func (t *Files) Open(p *Process, name string, a *Answer) error {
	kind := t.Kinds[name]
	if kind == nil {
		return syscall.ENOENT
	}
	if own := uint32(os.Geteuid()); kind.Private && p.UID != own && p.UID != 0 {
		return Refuse(syscall.EACCES, reason.ClientFile, uint64(own), uint64(p.UID))
	}
	f, fd, err := NewFile(t.Runtime, p, name, kind)
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		_ = unix.Close(fd)
		f.End()
		return syscall.EIO
	}
	id := uint64(0)
	for id < 16 || t.open[id] != nil {
		id = random64()
	}
	t.open[id] = f
	f.Register(id, func() { t.remove(id) })
	t.Runtime.Running.Add(1)
	t.mu.Unlock()
	a.Attach(fd, 0, 0, 0)
	a.File, a.Rdev = id, kind.Rdev
	if kind.Socket {
		a.Flags |= uapi.ReplySocket
	}
	if err := f.Watch(t.Runtime.Running.Done); err != nil {
		t.Runtime.Running.Done()
		f.End()
		return err
	}
	return nil
}

// remove forgets a file after its end.
func (t *Files) remove(id uint64) {
	t.mu.Lock()
	delete(t.open, id)
	t.mu.Unlock()
}

// Find returns the file of a number, or nil if it has ended.
func (t *Files) Find(id uint64) *File {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// All returns the open files.
func (t *Files) All() []*File {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.open))
}

// Close ends all files. Their programs find their requests flushed and an event of a
// fatal error of the device, and their calls fail. None is opened after that.
func (t *Files) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	for _, f := range t.All() {
		f.Fail()
		f.End()
	}
}

// random64 returns an unpredictable number. A process that knows a file's number can use the
// file.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.NativeEndian.Uint64(b[:])
}
