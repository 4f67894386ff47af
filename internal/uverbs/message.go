//go:build linux

package uverbs

import (
	"syscall"

	"softrdma/internal/uverbs/uapi"
)

// An answer is a reply being made, with the descriptors that go with it, which
// are closed when it was sent.
type answer struct {
	reply
	fds  []int
	data []byte // behind the reply: a text

	exchange *exchange
	sent     bool // already, see early

	watch *queuePair // from now on, see offer
}

// early sends the answer while the call is still being carried out: nothing that
// follows changes it.
func (a *answer) early() {
	if a.exchange != nil {
		a.sent = a.exchange.send(a)
	}
}

// give adds a descriptor whose number the library stores at addr, or returns
// where that is 0.
func (a *answer) give(fd int, addr uint64, width uint32, kind uint32) {
	if addr != 0 {
		a.Place[len(a.fds)] = place{Addr: addr, Width: width, Flags: syscall.O_CLOEXEC, Kind: kind}
		a.Places = uint32(len(a.fds)) + 1
	}
	a.fds = append(a.fds, fd)
}

func (a *answer) close() {
	for _, fd := range a.fds {
		_ = syscall.Close(fd)
	}
}

// fail turns an error into the negative number of a system call's, with its
// text where tell says so.
func (a *answer) fail(err error, tell bool) {
	a.close()
	*a = answer{}
	a.Result = -int64(errnoOf(err))
	if tell {
		text := err.Error()
		a.data = []byte(text[:min(len(text), uapi.MaxText)])
	}
}
