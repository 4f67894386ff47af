//go:build linux

package uverbs

import (
	"syscall"
	"unsafe"
)

// protocol is the version of the messages between the preloaded library and
// the server; both come from one build.
const protocol = 1

// The calls that the library forwards.
const (
	opOpen  = 1
	opIoctl = 2
	opWrite = 3
	opRead  = 4
	opMmap  = 5
)

// request is what the library sends: one message of a SOCK_SEQPACKET socket,
// with up to maxData bytes behind it.
type request struct {
	Version, Op uint32
	File        uint64
	Arg         [4]uint64
}

const (
	requestLen = int(unsafe.Sizeof(request{}))
	maxData    = 256
	maxFDs     = 4
)

// place is where in the program's memory a descriptor's number goes.
type place struct {
	Addr         uint64
	Width, Flags uint32
}

// replyWait asks the library to call again when the file is readable.
const replyWait = 1

// reply is the answer, with up to maxFDs descriptors.
type reply struct {
	Result        int64
	File          uint64
	Rdev          uint64
	Offset        uint64
	Flags, Places uint32
	Place         [maxFDs]place
}

// An answer is a reply being made, with the descriptors that go with it. They
// are closed when it was sent, but for those that keep names.
type answer struct {
	reply
	fds  []int
	keep []bool
}

// give adds a descriptor whose number the library stores at addr, or returns
// where that is 0.
func (a *answer) give(fd int, addr uint64, width uint32, keep bool) {
	if addr != 0 {
		a.Place[len(a.fds)] = place{Addr: addr, Width: width, Flags: syscall.O_CLOEXEC}
		a.Places = uint32(len(a.fds)) + 1
	}
	a.fds = append(a.fds, fd)
	a.keep = append(a.keep, keep)
}

func (a *answer) close() {
	for i, fd := range a.fds {
		if !a.keep[i] {
			_ = syscall.Close(fd)
		}
	}
}

// fail turns an error into the negative number of a system call's.
func (a *answer) fail(err error) {
	a.close()
	*a = answer{}
	a.Result = -int64(errnoOf(err))
}
