package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/provider"
	"softrdma/internal/provider/local"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/waiting"
)

// A WC is a work completion (ibv_wc, IBTA 11.4.2.1).
type WC struct {
	WRID           uint64 // of the work request
	Status         Status
	Op             WCOp   // valid if Status is Success
	ByteLen        uint32 // bytes, of receives, READs and atomics; on UD including the 40-byte GRH area
	Imm            uint32 // with WCWithImm
	InvalidatedKey uint32 // with WCWithInv
	QPN            uint32 // of this side
	SrcQPN         uint32 // of the sender (UD)
	Flags          WCFlags
	PKeyIndex      uint16

	// Of a datagram that arrived at a port of a fabric:
	SLID     uint16 // of the sender
	SL       uint8
	PathBits uint8 // low bits of the destination LID, up to the port's LMC

	why, peer reason.Detail
}

// A WCOp is the operation that completed. The numbers are those of ibv_wc_opcode.
type WCOp uint32

// The completed operations.
const (
	WCSend        WCOp = 0
	WCWrite       WCOp = 1
	WCRead        WCOp = 2
	WCCompareSwap WCOp = 3
	WCFetchAdd    WCOp = 4
	WCFlush       WCOp = 8
	WCAtomicWrite WCOp = 9
	WCBindMW      WCOp = 5
	WCLocalInv    WCOp = 6
	WCRecv        WCOp = 1 << 7   // a SEND arrived
	WCRecvRDMAImm WCOp = 1<<7 + 1 // a WRITE with immediate data arrived
)

// String returns the name of ibv_wc_opcode, as "IBV_WC_RDMA_WRITE".
func (o WCOp) String() string { return queue.WCOp(o).String() }

// WCFlags say what else a completion has. The numbers are those of ibv_wc_flags.
type WCFlags uint32

// The flags.
const (
	WCGRH     WCFlags = 1 << 0 // the packet had a GRH, or IP header, which the receive buffer starts with
	WCWithImm WCFlags = 1 << 1 // Imm is set
	WCWithInv WCFlags = 1 << 3 // InvalidatedKey is set
)

// Err returns nil for a success, otherwise a *CompletionError.
func (w *WC) Err() error {
	if w.Status == Success {
		return nil
	}
	return &CompletionError{Status: w.Status, WRID: w.WRID, QPN: w.QPN, why: w.why, peer: w.peer}
}

// Reason returns the name of this side's reason of a failed completion, as in traces and counters.
func (w *WC) Reason() string { return w.why.Reason.String() }

// CQConfig configures a completion queue.
type CQConfig struct {
	// Depth is the minimum number of completions that the queue holds, 1 to MaxCQDepth; 0
	// means 256. A queue that is not polled in time overflows, which ends it and its queue
	// pairs (IBTA 11.6.3.2).
	Depth int

	// Channel receives the queue's events. Nil makes a channel for this queue only, which Wait
	// needs.
	Channel *CompChannel
}

// A CQ is a completion queue.
type CQ struct {
	dev     *Device
	drv     provider.CQ
	channel *CompChannel
	own     bool

	mu      sync.Mutex // held by consumers
	waiters atomic.Int32
	polling waiting.Adaptive
}

// CreateCQ makes a completion queue (IBTA 11.2, ibv_create_cq).
func (d *Device) CreateCQ(cfg CQConfig) (*CQ, error) {
	depth, err := depthOf("CQ", cfg.Depth, 256, MaxCQDepth)
	if err != nil {
		return nil, err
	}
	c := &CQ{dev: d, channel: cfg.Channel}
	switch {
	case c.channel == nil:
		c.own = true
		if c.channel, err = d.newChannel(); err != nil {
			return nil, err
		}
	case c.channel.dev != d:
		return nil, reason.BadArgument(0, 0, "create CQ: expected a completion channel of its device, found another device's")
	}
	if c.drv, err = d.drv.CreateCQ(depth, c.channel.drv, c); err != nil {
		if c.own {
			err = errors.Join(err, c.channel.Destroy())
		}
		return nil, fmt.Errorf("create CQ: %w", err)
	}
	return c, nil
}

func depthOf(what string, n, def, limit int) (int, error) {
	if n == 0 {
		n = def
	}
	if n < 1 || n > limit {
		return 0, reason.BadArgument(uint64(limit), uint64(n), "create %s: depth: expected 1 to %d, found %d", what, limit, n)
	}
	return n, nil
}

// Depth returns how many completions the queue holds.
func (c *CQ) Depth() int { return c.drv.Depth() }

// Resize changes the depth, 1 to MaxCQDepth, and keeps the completions that the
// queue holds (IBTA 11.2, ibv_resize_cq).
func (c *CQ) Resize(depth int) error {
	depth, err := depthOf("CQ", depth, 1, MaxCQDepth)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drv.Resize(depth)
}

// Destroy destroys the queue. It fails with ErrBusy while queue pairs complete to
// it. A second Destroy does nothing.
func (c *CQ) Destroy() error {
	if err := c.drv.Destroy(); err != nil {
		return fmt.Errorf("destroy CQ: %w", err)
	}
	if c.own {
		return c.channel.Destroy()
	}
	return nil
}

// Poll moves completions to wcs, oldest first, and returns how many. It neither
// blocks nor allocates. If the queue is empty it lets the device receive, so
// polling in a loop is the fastest way to wait. Once the queue has overflowed and
// is empty, Poll returns ErrOverflow.
func (c *CQ) Poll(wcs []WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.take(wcs)
	if n == 0 && len(wcs) > 0 {
		c.drv.Progress(true)
		if n = c.take(wcs); n == 0 {
			return 0, c.empty()
		}
	}
	return n, nil
}

func (c *CQ) empty() error {
	if err := c.drv.Gone(); err != nil {
		return err
	}
	return c.drv.Err()
}

func (c *CQ) take(wcs []WC) int {
	r := c.drv.Ring()
	i, n := r.Consumer(), min(r.Len(), len(wcs))
	for k := range n {
		wcs[k].from(r.At(i))
		if c.dev.fabric != nil {
			wcs[k].linkRoute(r.At(i))
		}
		i = r.Next(i)
	}
	if n > 0 {
		r.Release(i)
	}
	return n
}

func (w *WC) from(e *queue.CQE) {
	*w = WC{
		WRID: e.WRID, Status: Status(e.Status), Op: WCOp(e.Op), ByteLen: e.ByteLen, QPN: e.QPN, SrcQPN: e.SrcQPN,
		Flags: WCFlags(e.Flags), PKeyIndex: e.PKeyIndex,
	}
	switch {
	case w.Status != Success:
		w.why, w.peer = e.Reasons()
		w.SrcQPN, w.PKeyIndex = 0, 0
	case w.Flags&WCWithImm != 0:
		w.Imm = queue.NetworkOrder(e.ImmInv)
	case w.Flags&WCWithInv != 0:
		w.InvalidatedKey = e.ImmInv
	}
}

func (w *WC) linkRoute(e *queue.CQE) { w.SLID, w.SL, w.PathBits = e.SLID, e.SL, e.DLIDPath }

// Arm requests one event on the queue's channel: at the next completion, or with
// solicitedOnly at the next solicited or failed completion (ibv_req_notify_cq).
// Completions that are already in the queue raise no event: poll after arming.
func (c *CQ) Arm(solicitedOnly bool) { c.drv.Arm(solicitedOnly) }

// Wait blocks until the queue holds a completion or ctx ends. It polls for the device's spin
// time before it sleeps. While a peer on this host answers through memory, and its sleeps are short,
// it polls for up to five times as long. The queue must have its own channel; with a shared channel use Arm
// and CompChannel.Next.
func (c *CQ) Wait(ctx context.Context) error { return c.wait(ctx, false) }

// WaitOne waits for the next completion and removes it. The error is that of the completion
// (WC.Err), of Wait or of Poll. Several goroutines may call it for one queue: each gets a
// completion, but not necessarily that of its own request. So give each its own queue, or
// distinguish the requests by WRID.
func (c *CQ) WaitOne(ctx context.Context) (WC, error) {
	var wcs [1]WC
	for {
		n, err := c.Poll(wcs[:])
		if err == nil && n == 1 {
			return wcs[0], wcs[0].Err()
		}
		if err == nil {
			err = c.Wait(ctx)
		}
		if err != nil {
			return WC{}, err
		}
	}
}

// WaitSolicited is like Wait, but waits for a solicited or failed completion. It
// returns at once if the queue holds any completion.
func (c *CQ) WaitSolicited(ctx context.Context) error { return c.wait(ctx, true) }

func (c *CQ) wait(ctx context.Context, solicitedOnly bool) error {
	if !c.own {
		return reason.BadArgument(0, 0, "wait on a CQ: expected a completion channel of its own, found a shared one: wait with CompChannel.Next")
	}
	c.waiters.Add(1)
	err := c.sleep(ctx, solicitedOnly)
	// The event that woke this waiter disarmed the queue for all waiters. There may be
	// completions for them as well, so wake the next one.
	if c.waiters.Add(-1) > 0 {
		c.drv.Pass()
	}
	return err
}

func (c *CQ) sleep(ctx context.Context, solicitedOnly bool) error {
	for {
		if c.spin(solicitedOnly) {
			return nil
		}
		c.drv.Arm(solicitedOnly)
		if c.drv.Ring().Len() > 0 {
			return nil
		}
		if err := c.empty(); err != nil {
			return err
		}
		began := time.Now()
		if _, err := c.channel.drv.Next(ctx); err != nil {
			return err
		}
		if c.drv.Near() {
			c.polling.Slept(time.Since(began), c.dev.spin)
		}
		if c.drv.Ring().Len() > 0 {
			return nil
		}
	}
}

// spin polls for the device's spin time, or longer (waiting.Adaptive), unless another waiter does so already: a
// spinning waiter receives for the whole device and wakes the sleeping ones. It
// reports whether the queue has a completion.
func (c *CQ) spin(solicitedOnly bool) bool {
	if c.drv.Ring().Len() > 0 {
		return true
	}
	if solicitedOnly || c.dev.spin <= 0 || !c.dev.spinning.Take() {
		return false
	}
	defer c.dev.spinning.Give()
	s := waiting.Spin{For: c.dev.spin, Every: 1}
	if c.drv.Near() {
		s = c.polling.Spin(c.dev.spin, 1)
	}
	for ; s.More(); s.Yield() {
		c.drv.Progress(true)
		if c.drv.Ring().Len() > 0 {
			return true
		}
	}
	c.drv.Progress(false) // the last yield may have taken all of the time
	return c.drv.Ring().Len() > 0
}

// A CompChannel is a completion channel: it queues the events of many CQs.
type CompChannel struct {
	dev *Device
	drv provider.CompletionChannel
}

// CreateCompChannel makes a completion channel.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	h, err := d.newChannel()
	if err == nil {
		d.local.Sanitizer().Created(h, "completion channel")
	}
	return h, err
}

func (d *Device) newChannel() (*CompChannel, error) {
	a, err := d.drv.CreateCompletionChannel()
	if err != nil {
		return nil, fmt.Errorf("create completion channel: %w", err)
	}
	return &CompChannel{d, a}, nil
}

// Next waits for the event of an armed completion queue and returns the queue, which is then
// disarmed: arm it again, then poll it (ibv_get_cq_event).
func (h *CompChannel) Next(ctx context.Context) (*CQ, error) {
	owner, err := h.drv.Next(ctx)
	if err != nil {
		h.dev.local.Sanitizer().GaveUp(local.AdapterChannel(h.drv))
		return nil, err
	}
	h.dev.local.Sanitizer().TookFrom(local.AdapterChannel(h.drv))
	return owner.(*CQ), nil
}

// Destroy destroys the channel. It fails with ErrBusy while completion queues use
// it. A second Destroy does nothing.
func (h *CompChannel) Destroy() error {
	err := h.drv.Destroy()
	if err == nil {
		h.dev.local.Sanitizer().Destroyed(h)
	}
	return err
}
