//go:build linux

package commands

import (
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/uapi"
)

// A provider is the user-space driver that programs have for a device: how the
// queues lie in the memory that it maps, and what it is told beside the
// kernel's answers.
type provider interface {
	// limits are how many entries and bytes of inline data a request may have.
	limits() (sge, inline int)

	// resizes tells whether it can give its queues another depth.
	resizes() bool

	// completions, sends and receives make queues.
	completions(depth int) mapped[queue.CompletionRing]
	sends(depth, sge, inline int) mapped[queue.SendRing]
	receives(depth, sge int) mapped[queue.RecvRing]

	// context, cq, qp, srq and mr are what it is told of a new object.
	context() []byte
	cq(q *cq, at uapi.MmInfo) []byte
	qp(q *queuePair, sq, rq uapi.MmInfo) []byte
	srq(q *srq, at uapi.MmInfo) []byte
	mr(key uint32) []byte
}

// A mapped queue is to be made in memory that a program maps.
type mapped[R any] struct {
	length int // bytes
	depth  int // what the program may count on
	on     func(mem []byte) *R
}

// in makes the queue.
func (m mapped[R]) in(x *context) (*R, *client.SharedMemory, error) {
	s, err := x.file.Account.NewSharedMemory(m.length)
	if err != nil {
		return nil, nil, err
	}
	return m.on(s.Bytes), s, nil
}
