//go:build linux

package commands

import (
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A provider is the user-space driver that programs have for a device. It decides
// the layout of the queues in shared memory, and the second part of answers.
type provider interface {
	// limits returns the most entries and bytes of inline data of a request.
	limits() (sge, inline int)

	// resizes reports whether its queues can change their depth.
	resizes() bool

	// completions, sends and receives describe queues of at least a depth.
	completions(depth int) mapped[queue.CompletionRing]
	sends(depth, sge, inline int) mapped[queue.SendRing]
	receives(depth, sge int) mapped[queue.RecvRing]

	// context, cq, qp, srq and mr return the second part of the answer about a new object.
	context() []byte
	cq(q *cq, at uapi.MmInfo) []byte
	qp(q *queuePair, sq, rq uapi.MmInfo) []byte
	srq(q *srq, at uapi.MmInfo) []byte
	mr(key uint32) []byte
}

// A mapped describes a queue in memory that a program maps.
type mapped[R any] struct {
	length int // bytes
	depth  int // as the program may use it
	on     func(mem []byte) *R
}

// in creates the queue.
func (m mapped[R]) in(x *context) (*R, *client.SharedMemory, error) {
	s, err := x.file.Account.NewSharedMemory(m.length)
	if err != nil {
		return nil, nil, err
	}
	return m.on(s.Bytes), s, nil
}

// A ring is where a queue of a program is, and how many requests or completions the
// program may have in it.
type ring struct {
	mem   *client.SharedMemory
	depth int
}

// place creates the queue and gives it to use, which makes or resizes an object with
// it. It returns where the program maps the queue.
func (m mapped[R]) place(x *context, use func(*R) error) (ring, uapi.MmInfo, error) {
	q, mem, err := m.in(x)
	if err != nil {
		return ring{}, uapi.MmInfo{}, err
	}
	if err := use(q); err != nil {
		mem.Close()
		return ring{}, uapi.MmInfo{}, err
	}
	return ring{mem, m.depth}, x.maps.Add(mem), nil
}
