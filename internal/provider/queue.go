package provider

import (
	"context"
	"net/netip"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A QPConfig says what a queue pair is made of.
type QPConfig struct {
	Type               qp.Type
	SendCQ, RecvCQ     CQ
	SRQ                SRQ // nil if it has none
	SendDepth, SendSGE int
	RecvDepth, RecvSGE int
	Inline             int // bytes
	SignalAll          bool
	Control            congestion.Kind
	Recovery           congestion.Recovery
	PeerTimeout        time.Duration
	PeerProbe          time.Duration
}

// A QP is a queue pair. The caller writes work requests into its rings and then
// calls Doorbell.
type QP interface {
	Number() uint32
	SendRing() *queue.SendRing
	RecvRing() *queue.RecvRing // nil with an SRQ, and of XRC
	Doorbell()

	// PostedReceives is called after receives were written into the RecvRing.
	PostedReceives()

	// StateHint returns the state without taking a lock. The queue pair may be
	// changing it.
	StateHint() qp.State

	// Gone returns object.ErrDestroyed or object.ErrClosed once the queue pair or
	// its device is gone, else nil.
	Gone() error

	// Supports returns an error unless the queue pair, or its connection, can
	// execute an operation.
	Supports(op queue.Op) error

	// Path returns how packets reach the peer now.
	Path() object.Path

	Modify(mask qp.Mask, a *qp.Attr) error
	Query() qp.Attr
	AttachMulticast(group netip.Addr) error
	DetachMulticast(group netip.Addr) error
	Destroy() error
}

// A CQ is a completion queue. The caller takes completions out of its ring, and
// calls Progress if there are none.
type CQ interface {
	Ring() *queue.CompletionRing
	Progress(mayYield bool)
	Near() bool // completions come through memory
	Arm(solicitedOnly bool)
	Pass() // wakes the next waiter of the channel
	Depth() int
	Resize(depth int) error
	Err() error  // object.ErrOverflow once it has overflowed
	Gone() error // as of a QP
	Destroy() error
}

// A CompletionChannel tells which armed completion queues have a completion.
type CompletionChannel interface {
	Next(ctx context.Context) (owner any, err error)
	Destroy() error
}

// An XRCD is an XRC domain.
type XRCD interface {
	// CreateSRQ makes an XRC shared receive queue. Peers name it by number, use keys of pd, and
	// their messages complete on cq.
	CreateSRQ(pd PD, cq CQ, depth, maxSGE, limit int, owner any) (s SRQ, number uint32, err error)

	// CreateTarget makes a target queue pair, which has no receive ring.
	CreateTarget(owner any) (QP, error)

	Close() error
}

// An SRQ is a shared receive queue. The caller writes receive requests into its
// ring.
type SRQ interface {
	Ring() *queue.RecvRing
	PostedReceives() // as of a QP
	SetLimit(limit int) error
	Limit() int
	Resize(depth int) error
	Gone() error // as of a QP
	Destroy() error
}
