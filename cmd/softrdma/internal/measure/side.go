// Package measure measures latency and bandwidth between two ends that talk over a
// control channel. The commands perf and demo use it. It prints nothing and parses
// no flags.
package measure

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

const (
	// stallLimit ends a measurement in which nothing completes.
	stallLimit = 20 * time.Second

	// In a latency test one of SignalEvery small requests is signaled.
	SignalEvery = 32

	// pollsPerCheck is the number of empty polls between two checks of the context.
	pollsPerCheck = 1024

	// InlineLimit is the largest message that latency tests send inline. perftest has
	// the same default.
	InlineLimit = 220
)

// SideConfig describes the objects of one end of a measurement.
type SideConfig struct {
	QPs        int
	Depth      int // of each send queue
	Recv       int // depth of each receive queue
	Memory     int // bytes
	MemoryKind MemoryKind
	Shared     *verbs.Memory // memory to use instead, which the caller frees and may have filled
	Inline     int           // bytes
	Events     bool

	Congestion verbs.CongestionControl
	Recovery   verbs.Recovery

	Managed bool // the connection manager creates the queue pairs, see Dial and Accept
}

// A Side is one end of a measurement: queue pairs to the other end with one completion
// queue, and a memory region that both ends access. Only one goroutine uses it.
type Side struct {
	Dev    *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ
	QPs    []*verbs.QP
	Local  []verbs.Endpoint
	mem    *verbs.Memory
	MR     *verbs.MR
	Buf    []byte
	Remote RemoteMemory
	Cfg    SideConfig
	conns  *connections // if the connection manager connects the queue pairs

	receives []int // outstanding receives of each queue pair, if a Flow posted any

	events     bool // sleep for completions instead of polling
	singleCPU  bool // with one processor, yield to the peer between polls
	emptyPolls int  // in sequence
	wcs        [64]verbs.WC
	n          int // completions in wcs

	Sent, Received int64 // completions of each kind so far
	progress       atomic.Int64
}

// NewSide creates the objects of one end on a device, which the caller keeps open.
func NewSide(dev *verbs.Device, cfg SideConfig) (*Side, error) {
	s := &Side{Dev: dev, Cfg: cfg, events: cfg.Events, singleCPU: runtime.GOMAXPROCS(0) == 1}
	if err := s.allocate(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// allocate creates the objects. If it fails, Close frees those that were created.
func (s *Side) allocate() (err error) {
	dev, cfg := s.Dev, s.Cfg
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if err = s.allocateMemory(); err != nil {
		return err
	}
	all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	if s.MR, err = s.pd.RegisterMemory(s.Buf, all); err != nil {
		return err
	}
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: cfg.QPs * (cfg.Depth + cfg.Recv)}); err != nil {
		return err
	}
	if cfg.Managed {
		return nil
	}
	for range cfg.QPs {
		qp, err := s.pd.CreateQP(s.qpConfig())
		if err != nil {
			return err
		}
		s.QPs = append(s.QPs, qp)
		s.Local = append(s.Local, qp.Endpoint())
	}
	return nil
}

func (s *Side) allocateMemory() (err error) {
	switch {
	case s.Cfg.Shared != nil:
		s.Buf = s.Cfg.Shared.Bytes()
		return nil
	case s.Cfg.MemoryKind == MemoryOrdinary:
		s.Buf = make([]byte, s.Cfg.Memory)
	default:
		if s.mem, err = verbs.AllocMemory(s.Cfg.Memory, verbs.AllocConfig{Device: s.Dev}); err != nil {
			return err
		}
		s.Buf = s.mem.Bytes()
	}
	clear(s.Buf) // avoid page faults during the measurement
	return nil
}

// qpConfig returns the configuration of each queue pair.
func (s *Side) qpConfig() verbs.QPConfig {
	return verbs.QPConfig{
		Type: verbs.RC, SendCQ: s.cq, MaxSend: s.Cfg.Depth, MaxRecv: s.Cfg.Recv, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: s.Cfg.Inline,
		Congestion: s.Cfg.Congestion, Recovery: s.Cfg.Recovery,
	}
}

// Close frees all objects but the device.
func (s *Side) Close() {
	if s.conns != nil {
		s.conns.close() // destroys the queue pairs as well
	} else {
		for _, q := range s.QPs {
			q.Destroy()
		}
	}
	if s.cq != nil {
		s.cq.Destroy()
	}
	if s.MR != nil {
		s.MR.Deregister()
	}
	if s.mem != nil {
		s.mem.Free()
	}
	if s.pd != nil {
		s.pd.Dealloc()
	}
}

// Memory describes this end's memory to the peer.
func (s *Side) Memory() *RemoteMemory {
	return &RemoteMemory{Addr: s.MR.Addr(), RKey: s.MR.RKey()}
}

// Connect connects the queue pairs to the peer's. An MTU of 0 means the smaller of both
// ports'.
func (s *Side) Connect(peer *Message, mtu int) error {
	if s.conns != nil && peer.Memory != nil {
		s.Remote = *peer.Memory
		return nil
	}
	if err := peer.CheckEndpoints(len(s.QPs)); err != nil {
		return err
	}
	s.Remote = *peer.Memory
	for i, q := range s.QPs {
		// A sender that found no receive waits 10 µs before it tries again. The
		// receiver needs about that long to post one.
		if err := q.Connect(s.Local[i], peer.Endpoints[i], verbs.ConnectConfig{PathMTU: mtu, MinRNRTimer: 1}); err != nil {
			return err
		}
	}
	return nil
}

// Poll stores new completions in s.wcs[:s.n] and counts them. With events it sleeps
// until there are some. A failed completion is an error.
func (s *Side) Poll(ctx context.Context) error {
	if s.events {
		if err := s.cq.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
	n, err := s.cq.Poll(s.wcs[:])
	s.n = n
	if n == 0 {
		if err != nil {
			return err
		}
		return s.handleEmptyPoll(ctx)
	}
	for i := range s.wcs[:n] {
		wc := &s.wcs[i]
		if wc.Status != verbs.Success {
			return wc.Err()
		}
		if wc.Op >= verbs.WCRecv {
			s.Received++
		} else {
			s.Sent++
		}
	}
	s.progress.Store(s.Sent + s.Received)
	return nil
}

// handleEmptyPoll yields and checks the context after a poll without completions.
func (s *Side) handleEmptyPoll(ctx context.Context) error {
	if s.singleCPU {
		Yield()
	}
	s.emptyPolls++
	if s.emptyPolls%pollsPerCheck == 0 && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// AwaitCompletions polls until the given numbers of sends and receives have completed
// in total.
func (s *Side) AwaitCompletions(ctx context.Context, sent, received int64) error {
	for s.Sent < sent || s.Received < received {
		if err := s.Poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Execute posts one signaled request on the first queue pair and waits for its
// completion.
func (s *Side) Execute(ctx context.Context, wr verbs.SendWR) error {
	wr.Flags |= verbs.Signaled
	if err := s.QPs[0].PostSend(wr); err != nil {
		return err
	}
	return s.AwaitCompletions(ctx, s.Sent+1, s.Received)
}

// Watch returns a context that ends when nothing completes for stallLimit. The returned
// function stops the watch.
func (s *Side) Watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(stallLimit / 4)
		defer tick.Stop()
		last, since := s.progress.Load(), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if n := s.progress.Load(); n != last {
					last, since = n, now
				} else if now.Sub(since) >= stallLimit {
					cancel(cli.PeerErrorf("no completion for %v", stallLimit))
				}
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// byteAt returns the byte at an offset of the region, which the device may be writing.
func (s *Side) byteAt(at int) byte {
	word := (*uint32)(unsafe.Pointer(&s.Buf[at&^3]))
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(word))
	return b[at&3]
}

// Word returns the aligned 64-bit word at an offset of the region, for atomic
// operations of this processor.
func (s *Side) Word(at int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.Buf[at : at+8][0]))
}

// awaitByte polls until the byte at an offset has a value.
func (s *Side) awaitByte(ctx context.Context, at int, want byte) error {
	for s.byteAt(at) != want {
		if err := s.Poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pollUntilMessage polls until the peer's next control message. The target of a
// one-sided operation calls it, so that both ends of a latency test poll.
func (s *Side) pollUntilMessage(ctx context.Context, c *Control) error {
	for c.Pending() == 0 {
		if s.events {
			return nil
		}
		if err := s.Poll(ctx); err != nil {
			return err
		}
	}
	return nil
}
