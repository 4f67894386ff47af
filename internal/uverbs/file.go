//go:build linux

package uverbs

import (
	"fmt"
	"sync"
	"syscall"

	"softrdma/internal/reason"
)

// maxCommand is the longest command that is read from a program. Longer ones
// have no meaning.
const maxCommand = 16 << 10

// A service is what a device file does.
type service interface {
	write(c *call, buf []byte) error
	ioctl(c *call, number, arg uint64) error
	mmap(c *call, offset, length uint64, prot int) error
	// end gives up everything that the file holds. No call runs any more.
	end()
	// count is how many objects the file holds.
	count() int
}

// A kind is a device file as it stands in the tree.
type kind struct {
	rdev uint64
	open func(f *file) service
}

// A file is an open device file of a program, however many descriptors there
// are of it.
type file struct {
	server *Server
	id     uint64
	name   string
	uid    uint32 // of who opened it
	gid    uint32

	account *account
	tell    *pipe // the program's descriptor; readable where the file is

	mu      sync.Mutex // one call at a time
	ended   bool
	service service
}

// A call is a system call on a file, while it is carried out.
type call struct {
	process *process
	file    *file
	answer  *answer
	fds     []int // that came with it

	share, shareArg uint64 // what a write tells of sharing memory, see uapi
}

// load reads a program's memory.
func (c *call) load(addr uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if err := c.process.Load(b, addr); err != nil {
		return nil, err
	}
	return b, nil
}

// store writes as much of b as a program has room for.
func (c *call) store(r room, b []byte) error {
	if n := min(len(b), r.n); n > 0 {
		return c.process.Store(r.addr, b[:n])
	}
	return nil
}

// room is a program's memory for an answer.
type room struct {
	addr uint64
	n    int
}

// call carries out a request on the file.
func (f *file) call(p *process, r *request, data []byte, fds []int, a *answer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return syscall.EIO
	}
	if p.uid != f.uid || p.gid != f.gid {
		return refuse(syscall.EACCES, reason.ClientFile, uint64(f.uid), uint64(p.uid))
	}
	c := &call{process: p, file: f, answer: a, fds: fds}
	switch r.Op {
	case opWrite:
		n := r.Arg[1]
		if n > maxCommand {
			return syscall.EINVAL
		}
		if n > uint64(len(data)) {
			var err error
			if data, err = c.load(r.Arg[0], int(n)); err != nil {
				return err
			}
		}
		a.Result = int64(n)
		c.share, c.shareArg = r.Arg[2], r.Arg[3]
		return f.service.write(c, data[:n])
	case opIoctl:
		return f.service.ioctl(c, r.Arg[0], r.Arg[1])
	case opMmap:
		return f.service.mmap(c, r.Arg[0], r.Arg[1], int(r.Arg[2]))
	case opRead:
		return syscall.EINVAL // neither kind of file is read
	}
	return syscall.ENOSYS
}

// leave ends the file for a program that says so: when it returns the device no
// longer touches the program's memory.
func (f *file) leave(p *process) error {
	if p.uid != f.uid || p.gid != f.gid {
		return refuse(syscall.EACCES, reason.ClientFile, uint64(f.uid), uint64(p.uid))
	}
	f.end()
	return nil
}

// fail tells the program that the device is about to go.
func (f *file) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x, ok := f.service.(*context); ok && !f.ended {
		x.fail()
	}
}

// end gives the file up, once.
func (f *file) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	f.service.end()
	f.tell.close()
	f.server.remove(f)
}

func (f *file) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0
	}
	return f.service.count()
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
