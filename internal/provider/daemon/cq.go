//go:build linux

package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/uapi"
)

// A channel is a completion channel.
type channel struct {
	resource
	records *records

	uses   atomic.Int32 // number of completion queues
	mu     sync.Mutex
	passed []uint64 // events that a caller of Next passed on
}

// CreateCompletionChannel implements provider.Device.
func (d *Device) CreateCompletionChannel() (provider.CompletionChannel, error) {
	_, fds, err := d.obtain(uapi.CmdCreateCompChannel, uapi.Bytes(&uapi.Response{}), nil, uapi.Size[uapi.HandleOnly](), 0)
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		closeAll(fds)
		return nil, fmt.Errorf("a completion channel of %d descriptors", len(fds))
	}
	h := &channel{}
	if h.records, err = d.newRecords(fds[0], 8, "completions"); err != nil {
		return nil, err
	}
	h.made(d, 0, &d.counts.channel)
	return h, nil
}

// Next implements provider.CompletionChannel.
func (h *channel) Next(ctx context.Context) (any, error) {
	for {
		var b [8]byte
		var passed uint64
		err := h.records.read(ctx, b[:], func() bool {
			passed = h.take()
			return passed != 0
		})
		switch {
		case errors.Is(err, errKicked):
		case errors.Is(err, object.ErrDestroyed):
			return nil, fmt.Errorf("completion channel: %w", err)
		case err != nil:
			return nil, err
		default:
			passed = binary.NativeEndian.Uint64(b[:])
		}
		if o, ok := h.d.owner(passed); ok {
			return o, nil
		}
	}
}

func (h *channel) take() (n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.passed) > 0 {
		n = h.passed[0]
		h.passed = h.passed[1:]
	}
	return n
}

func (h *channel) pass(n uint64) {
	h.mu.Lock()
	h.passed = append(h.passed, n)
	h.mu.Unlock()
	h.records.kick()
}

func (h *channel) forget(n uint64) {
	h.mu.Lock()
	h.passed = slices.DeleteFunc(h.passed, func(x uint64) bool { return x == n })
	h.mu.Unlock()
}

// Destroy implements provider.CompletionChannel. The daemon sees that the pipe is closed.
func (h *channel) Destroy() error {
	_, err := h.end(func() error {
		if n := h.uses.Load(); n > 0 {
			return object.Busy("completion channel", int(n))
		}
		h.records.destroy()
		return nil
	})
	return err
}

// A completions is a completion queue.
type completions struct {
	resource
	ring    atomic.Pointer[queue.CompletionRing]
	channel *channel
	number  uint64
	empty   atomic.Uint32 // number of empty polls
}

// CreateCQ implements provider.Device.
func (d *Device) CreateCQ(depth int, ch provider.CompletionChannel, owner any) (provider.CQ, error) {
	h := ch.(*channel)
	if err := h.gone("completion channel"); err != nil {
		return nil, err
	}
	c := &completions{channel: h, number: d.own(owner)}
	q := uapi.CreateCQ{UserHandle: c.number, CQE: uint32(depth), CompChannel: int32(h.records.fd)}
	out := uapi.Size[uapi.CreateCQResp]()
	a, err := d.command(uapi.CmdCreateCQ, uapi.Bytes(&q), nil, out, uapi.Size[uapi.MmInfo]())
	if err != nil {
		d.disown(c.number)
		return nil, err
	}
	r, _ := uapi.Parse[uapi.CreateCQResp](a)
	mi, _ := uapi.Parse[uapi.MmInfo](a[out:])
	c.made(d, r.CQHandle, &d.counts.cq)
	h.uses.Add(1)
	if err := c.mapRing(mi, int(r.CQE)); err != nil {
		return nil, errors.Join(err, c.Destroy())
	}
	return c, nil
}

// mapRing maps the ring that the daemon created.
func (c *completions) mapRing(mi uapi.MmInfo, depth int) error {
	mem, err := c.d.mmap(mi, queue.CompletionRingLen(depth))
	if err != nil {
		return err
	}
	r := queue.CompletionRingOn(mem, depth)
	keep(r, mem)
	c.ring.Store(r)
	return nil
}

// Ring implements provider.CQ.
func (c *completions) Ring() *queue.CompletionRing { return c.ring.Load() }

// emptyPolls is the number of empty polls after which a poller yields its
// processor, which the daemon or the peer may need.
const emptyPolls = 8

// Progress implements provider.CQ. It does nothing, because the daemon makes
// progress by itself.
func (c *completions) Progress(mayYield bool) {
	if mayYield && c.empty.Add(1)%emptyPolls == 0 {
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched()
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// Arm implements provider.CQ. After the end of the daemon nothing completes any
// more.
func (c *completions) Arm(solicitedOnly bool) {
	q := uapi.ReqNotifyCQ{CQHandle: c.handle}
	if solicitedOnly {
		q.SolicitedOnly = 1
	}
	_ = c.d.do(uapi.CmdReqNotifyCQ, uapi.Bytes(&q))
}

// Pass implements provider.CQ.
func (c *completions) Pass() { c.channel.pass(c.number) }

// Depth implements provider.CQ.
func (c *completions) Depth() int { return c.Ring().Depth() }

// Resize implements provider.CQ.
func (c *completions) Resize(depth int) error {
	if err := c.Gone(); err != nil {
		return err
	}
	q := uapi.ResizeCQ{CQHandle: c.handle, CQE: uint32(depth)}
	out := uapi.Size[uapi.ResizeCQResp]()
	a, err := c.d.command(uapi.CmdResizeCQ, uapi.Bytes(&q), nil, out, uapi.Size[uapi.MmInfo]())
	if err != nil {
		return err
	}
	r, _ := uapi.Parse[uapi.ResizeCQResp](a)
	mi, _ := uapi.Parse[uapi.MmInfo](a[out:])
	return c.mapRing(mi, int(r.CQE))
}

// Err implements provider.CQ.
func (c *completions) Err() error {
	if c.Ring().State() != 0 {
		return object.Overflowed(c.Depth())
	}
	return nil
}

// Gone implements provider.CQ.
func (c *completions) Gone() error { return c.gone("completion queue") }

// Destroy implements provider.CQ.
func (c *completions) Destroy() error {
	did, err := c.destroy(uapi.CmdDestroyCQ, uapi.Size[uapi.DestroyCQResp]())
	if did {
		c.d.disown(c.number)
		c.channel.forget(c.number)
		c.channel.uses.Add(-1)
	}
	return err
}
