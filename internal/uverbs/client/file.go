//go:build linux

package client

import (
	"context"
	"fmt"
	"math"
	"softrdma/internal/adapter"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// MaxCommand is the longest command that is read from a program, but for a LongWriter.
const MaxCommand = 16 << 10

// A Runtime is what a server lends to everything that it runs for programs.
type Runtime struct {
	Context  context.Context // ends with the server
	Running  sync.WaitGroup  // goroutines that the server waits for at its end
	Refusals Refusals
}

// A Service executes the system calls on one open device file.
type Service interface {
	Write(c *Call, buf []byte) error
	Ioctl(c *Call, number, arg uint64) error
	Mmap(c *Call, offset, length uint64, prot int) error
	// Fail tells the program that the device is about to go.
	Fail()
	// End gives up everything that the file holds. No call runs any more.
	End()
	// Count returns how many objects the file holds.
	Count() int
}

// A Reader is a service of a file that is read. Where nothing is there yet it returns
// EAGAIN, with uapi.ReplyWait unless the file is a socket.
type Reader interface {
	// Read stores data in the program's memory and sets the result of the answer.
	Read(c *Call, to Buffer) error
}

// A LongWriter is a service that takes writes of more than MaxCommand bytes.
type LongWriter interface{ MaxWrite() int }

// Direct is a service that a program in this process calls without a message, from any
// of its threads.
type Direct interface {
	// Doorbell executes what was posted to the queue pair of a handle.
	Doorbell(handle uint32) error
	// Progress makes the device progress for the completion queue of a handle. It may yield the
	// processor after calls without success if the program allows that.
	Progress(handle uint32, mayYield bool) error
	// Posted tells the sanitizer what was posted to the queue of a handle: receives, or requests.
	Posted(handle uint32, receives bool)
	// Adapter returns the device.
	Adapter() *adapter.Device
}

// A File is an open device file of a program, however many descriptors refer to
// it.
type File struct {
	Runtime *Runtime
	ID      uint64
	Name    string
	PID     int    // of the process that opened it
	uid     uint32 // of the process that opened it
	gid     uint32

	Account *Account
	Pipe    *Pipe // the program's descriptor, readable while the file is

	mu      sync.Mutex // one call at a time
	ended   bool
	service Service
	direct  Direct // the same service, nil if it is called by messages only
	onEnd   func()
}

// NewFile opens a device file of a kind for a process, and returns the program's
// descriptor of it as well.
func NewFile(s *Runtime, p *Process, name string, kind *Kind) (f *File, fd int, _ error) {
	pipe := func(a *Account) (*Pipe, int, error) { return NewPipe(1, a) }
	if kind.Socket {
		pipe = NewSocket
	}
	tell, fd, err := pipe(p.Account)
	if err != nil {
		return nil, -1, err
	}
	f = &File{Runtime: s, Name: name, PID: p.PID, uid: p.UID, gid: p.GID, Account: p.Account, Pipe: tell, onEnd: func() {}}
	if f.service, err = kind.Open(f); err != nil {
		tell.Close()
		_ = unix.Close(fd)
		return nil, -1, err
	}
	f.direct, _ = f.service.(Direct)
	return f, fd, nil
}

// Register records the number by which calls name the file, and calls onEnd when it
// has ended.
func (f *File) Register(id uint64, onEnd func()) { f.ID, f.onEnd = id, onEnd }

// Watch ends the file when the program has closed its last descriptor of it, and
// calls done then.
func (f *File) Watch(done func()) error {
	return f.Pipe.OnClose(func() {
		defer done()
		f.End()
	})
}

// Direct returns the file's service for calls without a message, or nil.
func (f *File) Direct() Direct { return f.direct }

// Between runs do while no call is executed. It reports false, and does not run
// it, if the file has ended.
func (f *File) Between(do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	do()
	return true
}

// UID returns the user of the process that opened the file.
func (f *File) UID() uint32 { return f.uid }

// Inspect runs do with the file's service while no call is executed, unless the file has ended.
func (f *File) Inspect(do func(Service)) {
	f.Between(func() { do(f.service) })
}

// A Call is a system call on a file, while it is executed.
type Call struct {
	Process *Process
	file    *File
	Answer  *Answer
}

// Load reads a program's memory.
func (c *Call) Load(addr uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if err := c.Process.Load(b, addr); err != nil {
		return nil, err
	}
	return b, nil
}

// Store writes as much of b as a program has room for.
func (c *Call) Store(r Buffer, b []byte) error {
	if n := min(len(b), r.N); n > 0 {
		return c.Process.Store(r.Addr, b[:n])
	}
	return nil
}

// Buffer is a program's memory for an answer.
type Buffer struct {
	Addr uint64
	N    int
}

// Call executes a request on the file.
func (f *File) Call(p *Process, r *uapi.Request, data []byte, a *Answer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return syscall.EIO
	}
	if err := f.belongsTo(p); err != nil {
		return err
	}
	c := &Call{Process: p, file: f, Answer: a}
	switch r.Op {
	case uapi.OpWrite:
		n := r.Arg[1]
		limit := MaxCommand
		if s, ok := f.service.(LongWriter); ok {
			limit = s.MaxWrite()
		}
		if n > uint64(limit) {
			return syscall.EINVAL
		}
		if n > uint64(len(data)) {
			var err error
			if data, err = c.Load(r.Arg[0], int(n)); err != nil {
				return err
			}
		}
		a.Result = int64(n)
		return f.service.Write(c, data[:n])
	case uapi.OpIoctl:
		return f.service.Ioctl(c, r.Arg[0], r.Arg[1])
	case uapi.OpMmap:
		return f.service.Mmap(c, r.Arg[0], r.Arg[1], int(r.Arg[2]))
	case uapi.OpRead:
		if s, ok := f.service.(Reader); ok {
			return s.Read(c, Buffer{r.Arg[0], int(min(r.Arg[1], math.MaxInt32))})
		}
		return syscall.EINVAL
	}
	return syscall.ENOSYS
}

// belongsTo refuses processes of another user than the one that opened the file.
func (f *File) belongsTo(p *Process) error {
	if p.UID != f.uid || p.GID != f.gid {
		return Refuse(syscall.EACCES, reason.ClientFile, uint64(f.uid), uint64(p.UID))
	}
	return nil
}

// CloseBy ends the file at its program's request. When it returns the device no
// longer touches the program's memory.
func (f *File) CloseBy(p *Process) error {
	if err := f.belongsTo(p); err != nil {
		return err
	}
	f.End()
	return nil
}

// Fail tells the program that the device is about to go.
func (f *File) Fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.service.Fail()
	}
}

// End closes the file with all its objects. Later calls do nothing.
func (f *File) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	f.service.End()
	f.Pipe.Close()
	f.onEnd()
}

// Count returns how many objects the file holds.
func (f *File) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0
	}
	return f.service.Count()
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
