// Package driver says what package verbs asks of a device, of which there are
// two kinds: Local, an adapter of this process, and the devices of a daemon.
// The rings are the same for both (package queue); what else is a call there
// is a message here.
//
// It holds no rule of the protocol, and checks nothing that the device checks.
package driver

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Device is an open device. Owners are the caller's own objects, by which
// events name what they are about.
type Device interface {
	AllocPD() (PD, error)
	CreateCQ(depth int, ch Channel, owner any) (CQ, error)
	CreateChannel() (Channel, error)
	NextEvent(ctx context.Context) (Event, error)
	MTU() int
	Closed() error
	Count() adapter.Counts
	Counters() iter.Seq2[reason.Reason, uint64] // of the reasons that were given
	Close() error
}

// An Event is an asynchronous event. Owner is that of the queue pair or queue
// that it concerns, nil for the device or port.
type Event struct {
	Type   machine.Event
	Owner  any
	Detail reason.Detail
}

// A PD is a protection domain.
type PD interface {
	Dealloc() error
	Register(b Buffer, base uint64, access qp.Access) (Region, error)
	Reregister(old Region, b Buffer, base uint64, access qp.Access) (Region, error)
	Deregister(r Region) error
	AllocWindow(kind memory.Kind) (key uint32, err error)
	FreeWindow(key uint32) error // of any variant
	CreateAH(path qp.Path) (num uint32, err error)
	DestroyAH(num uint32) error
	CreateSRQ(depth, maxSGE, limit int, owner any) (SRQ, error)
	CreateQP(c *QPConfig, owner any) (QP, error)
}

// A Buffer is memory to register. Where all of it is mapped from a memfd that
// other processes may map too, Memfd is its descriptor and Offset the place in
// it.
type Buffer struct {
	Mem    []byte
	Shared bool
	Memfd  int
	Offset uint64 // bytes
}

// A Region is registered memory as work requests name it.
type Region struct {
	Key       uint32
	Base, Len uint64
	Of        any // the device's own object
}

// A QPConfig says what a queue pair is made of; see adapter.QPConfig.
type QPConfig struct {
	Type               qp.Type
	SendCQ, RecvCQ     CQ
	SRQ                SRQ // nil for none
	SendDepth, SendSGE int
	RecvDepth, RecvSGE int
	Inline             int
	SignalAll          bool
	Control            congestion.Kind
	Recovery           adapter.Recovery
	PeerTimeout        time.Duration
	PeerProbe          time.Duration
}

// A QP is a queue pair. The caller posts to its rings and rings Doorbell.
type QP interface {
	Number() uint32
	SendRing() *queue.SendRing
	RecvRing() *queue.RecvRing // nil with an SRQ
	Doorbell()
	StateHint() qp.State
	Gone() error
	Supports(op queue.Op) error
	Modify(mask qp.Mask, a *qp.Attr) error
	Query() qp.Attr
	AttachMulticast(group netip.Addr) error
	DetachMulticast(group netip.Addr) error
	Destroy() error
}

// A CQ is a completion queue. The caller takes completions out of its ring, and
// calls Progress where there are none.
type CQ interface {
	Ring() *queue.CompletionRing
	Progress()
	Arm(solicitedOnly bool)
	Pass() // gives an event to the next who waits on the channel
	Depth() int
	Resize(depth int) error
	Err() error
	Gone() error
	Destroy() error
}

// A Channel is a completion channel.
type Channel interface {
	Next(ctx context.Context) (owner any, err error)
	Destroy() error
}

// An SRQ is a shared receive queue. The caller posts to its ring.
type SRQ interface {
	Ring() *queue.RecvRing
	SetLimit(limit int) error
	Limit() int
	Resize(depth int) error
	Gone() error
	Destroy() error
}
