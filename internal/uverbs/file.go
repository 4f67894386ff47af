//go:build linux

package uverbs

import (
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
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
	tell   *pipe // the program's descriptor; readable where the file is

	mu      sync.Mutex // one call at a time
	ended   bool
	service service
}

// A call is a system call on a file, while it is carried out.
type call struct {
	process *process
	file    *file
	answer  *answer
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
func (f *file) call(p *process, r *request, data []byte, a *answer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return syscall.EBADF
	}
	c := &call{process: p, file: f, answer: a}
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
		if err := f.service.write(c, data[:n]); err != nil {
			return err
		}
		a.Result = int64(n)
		return nil
	case opIoctl:
		return f.service.ioctl(c, r.Arg[0], r.Arg[1])
	case opMmap:
		return f.service.mmap(c, r.Arg[0], r.Arg[1], int(r.Arg[2]))
	case opRead:
		return syscall.EINVAL // neither kind of file is read
	}
	return syscall.ENOSYS
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

// inodeOf tells which pipe a descriptor of a program's is.
func (p *process) inodeOf(fd int) (uint64, error) {
	var room [64]byte
	n, err := unix.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, fd), room[:])
	if err != nil {
		return 0, syscall.EBADF
	}
	var inode uint64
	if k, _ := fmt.Sscanf(string(room[:n]), "pipe:[%d]", &inode); k != 1 {
		return 0, syscall.EBADF
	}
	return inode, nil
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
