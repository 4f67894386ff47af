package main

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"softrdma/verbs"
)

const (
	// stallLimit ends a measurement in which nothing completes any more.
	stallLimit = 20 * time.Second

	// signalEvery is how many of the small requests of a latency test go
	// without a completion for one that has one.
	signalEvery = 32

	// pollsPerCheck is how many empty polls pass before the end of the context
	// is looked for.
	pollsPerCheck = 1024

	// inlineLimit is the message size up to which latency tests send inline,
	// as perftest does by default.
	inlineLimit = 220
)

// sideConfig says what one end of a measurement is made of.
type sideConfig struct {
	QPs    int
	Depth  int // of each send queue
	Recv   int // depth of each receive queue
	Memory int // bytes
	Inline int // bytes
	Events bool

	Congestion verbs.CongestionControl
	Recovery   verbs.Recovery

	Managed bool // the queue pairs come with their connections, see side.call
}

// A side is one end of a measurement: queue pairs to the other end, all of
// which complete to one queue, and a region of memory that both ends reach.
// One goroutine uses it.
type side struct {
	dev    *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ
	qps    []*verbs.QP
	local  []verbs.Endpoint
	mem    *verbs.Memory
	mr     *verbs.MR
	buf    []byte
	remote remoteMemory
	cfg    sideConfig
	links  *perfLinks // of queue pairs that the connection manager connects

	receives []int // of each queue pair, posted and not taken, where flows have any

	events bool // sleep for completions instead of polling
	single bool // one processor: the peer needs it between polls
	idle   int  // empty polls
	wcs    [64]verbs.WC
	n      int // of wcs that the last poll filled

	sent, received int64 // completions of each kind so far
	progress       atomic.Int64
}

// newSide makes the objects of one end on a device, which stays the caller's.
func newSide(dev *verbs.Device, cfg sideConfig) (*side, error) {
	s := &side{dev: dev, cfg: cfg, events: cfg.Events, single: runtime.GOMAXPROCS(0) == 1}
	if err := s.allocate(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// allocate creates the objects; if it fails, close frees those that were created.
func (s *side) allocate() (err error) {
	dev, cfg := s.dev, s.cfg
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if s.mem, err = verbs.AllocMemory(cfg.Memory, verbs.AllocConfig{Device: dev}); err != nil {
		return err
	}
	s.buf = s.mem.Bytes()
	clear(s.buf) // no page is missing when the clock runs
	all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	if s.mr, err = s.pd.RegisterMemory(s.buf, all); err != nil {
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
		s.qps = append(s.qps, qp)
		s.local = append(s.local, qp.Endpoint())
	}
	return nil
}

// qpConfig is what each queue pair is made of.
func (s *side) qpConfig() verbs.QPConfig {
	return verbs.QPConfig{
		Type: verbs.RC, SendCQ: s.cq, MaxSend: s.cfg.Depth, MaxRecv: s.cfg.Recv, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: s.cfg.Inline,
		Congestion: s.cfg.Congestion, Recovery: s.cfg.Recovery,
	}
}

// close gives everything up but the device.
func (s *side) close() {
	if s.links != nil {
		s.links.close() // with the queue pairs
	} else {
		for _, q := range s.qps {
			q.Destroy()
		}
	}
	if s.cq != nil {
		s.cq.Destroy()
	}
	if s.mr != nil {
		s.mr.Deregister()
	}
	if s.mem != nil {
		s.mem.Free()
	}
	if s.pd != nil {
		s.pd.Dealloc()
	}
}

// memory is what the peer needs to reach this end's memory.
func (s *side) memory() *remoteMemory {
	return &remoteMemory{Addr: s.mr.Addr(), RKey: s.mr.RKey()}
}

// connect connects the queue pairs to those of the peer. An MTU of 0 takes the
// smaller of both ports'.
func (s *side) connect(peer *controlMessage, mtu int) error {
	if s.links != nil && peer.Memory != nil {
		s.remote = *peer.Memory
		return nil
	}
	if len(peer.Endpoints) != len(s.qps) || peer.Memory == nil {
		return peerErrorf("control channel: expected %d endpoints and a memory region, found %d endpoints", len(s.qps), len(peer.Endpoints))
	}
	s.remote = *peer.Memory
	for i, q := range s.qps {
		// 10 µs before a sender that found no receive tries again: it is about
		// what the receiver needs to post one.
		if err := q.Connect(s.local[i], peer.Endpoints[i], verbs.ConnectConfig{PathMTU: mtu, MinRNRTimer: 1}); err != nil {
			return err
		}
	}
	return nil
}

// poll takes what has completed into s.wcs[:s.n] and counts it; with events it
// sleeps until something has. A failed completion is an error.
func (s *side) poll(ctx context.Context) error {
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
		return s.empty(ctx)
	}
	for i := range s.wcs[:n] {
		wc := &s.wcs[i]
		if wc.Status != verbs.Success {
			return wc.Err()
		}
		if wc.Op >= verbs.WCRecv {
			s.received++
		} else {
			s.sent++
		}
	}
	s.progress.Store(s.sent + s.received)
	return nil
}

// empty is what a poll does that found nothing.
func (s *side) empty(ctx context.Context) error {
	if s.single {
		yield()
	}
	s.idle++
	if s.idle%pollsPerCheck == 0 && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// reach polls until so many sends and receives have completed in all.
func (s *side) reach(ctx context.Context, sent, received int64) error {
	for s.sent < sent || s.received < received {
		if err := s.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// execute posts one signaled request on the first queue pair and waits for it.
func (s *side) execute(ctx context.Context, wr verbs.SendWR) error {
	wr.Flags |= verbs.Signaled
	if err := s.qps[0].PostSend(wr); err != nil {
		return err
	}
	return s.reach(ctx, s.sent+1, s.received)
}

// watch ends the context when nothing completes for the stall limit. The
// returned function ends the watch.
func (s *side) watch(ctx context.Context) (context.Context, func()) {
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
					cancel(peerErrorf("no completion for %v", stallLimit))
				}
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// byteAt reads a byte of memory that the device may write meanwhile: at is an
// offset into the region.
func (s *side) byteAt(at int) byte {
	word := (*uint32)(unsafe.Pointer(&s.buf[at&^3]))
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(word))
	return b[at&3]
}

// word is the aligned 64-bit word at an offset into the region, for atomics of
// this end's processor.
func (s *side) word(at int) *uint64 {
	return (*uint64)(unsafe.Pointer(&s.buf[at : at+8][0]))
}

// awaitByte polls memory until the byte at an offset has a value.
func (s *side) awaitByte(ctx context.Context, at int, want byte) error {
	for s.byteAt(at) != want {
		if err := s.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve makes progress until the peer's next control message: the target of a
// one-sided operation that polls, so that both ends of a latency test do.
func (s *side) serve(ctx context.Context, c *control) error {
	for len(c.in) == 0 {
		if s.events {
			return nil
		}
		if err := s.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}
