package pingpong

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

const (
	maxQPs = 256 // with srq each side sends this many destinations
	qKey   = 0x11111111
	grhLen = 40
)

// WRIDs. They are also bits of session.waiting.
const (
	waitRecv = 1 << iota
	waitSend
)

// A session is the queue pairs of one side of a pingpong, with their memory.
//
// The client sends the first message on every queue pair. Then each side sends its next
// message when its last one was sent and the peer's has arrived. Both sides receive
// into the memory that they send from, so that the client's data comes back.
type session struct {
	cmd     *command
	dev     *verbs.Device
	create  createQP // nil if the queue pairs are connected without the connection manager
	pd      *verbs.PD
	cq      *verbs.CQ
	srq     *verbs.SRQ
	qps     []*verbs.QP
	index   map[uint32]int // into qps, by QP number
	mr      *verbs.MR
	local   []destination
	recvWRs []verbs.RecvWR // posted in parts
	sendWRs []verbs.SendWR // one request, for all queue pairs
	payload payload
	posted  int     // receives
	waiting []uint8 // waitRecv and waitSend bits of each queue pair

	sent, received int
	progress       atomic.Int64 // completions, for watch
}

// createQP creates a queue pair in INIT, for the connection manager.
type createQP func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)

// newSession creates the queue pairs and posts receives.
func newSession(p *command, dev *verbs.Device, create createQP) (*session, error) {
	r := &session{cmd: p, dev: dev, create: create, index: map[uint32]int{}}
	n := p.queuePairs()
	r.waiting = make([]uint8, n)
	r.payload = newPayload(p)
	var err error
	if r.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if r.mr, err = r.pd.RegisterMemory(r.payload.memory, verbs.LocalWrite); err != nil {
		return nil, err
	}
	if r.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: p.rxDepth + n}); err != nil {
		return nil, err
	}
	if p.service == "srq" {
		if r.srq, err = r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: p.rxDepth, MaxSGE: 1}); err != nil {
			return nil, err
		}
		r.local = make([]destination, maxQPs)
	} else {
		r.local = make([]destination, 1)
	}
	for i := range n {
		if err := r.addQP(i); err != nil {
			return nil, err
		}
	}
	r.recvWRs = make([]verbs.RecvWR, p.rxDepth)
	sgl := []verbs.SGE{r.mr.SGE(0, r.payload.recvLen())}
	for i := range r.recvWRs {
		r.recvWRs[i] = verbs.RecvWR{WRID: waitRecv, SGL: sgl}
	}
	r.sendWRs = []verbs.SendWR{{
		WRID: waitSend, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{r.mr.SGE(r.payload.sendAt, int(p.size))},
	}}
	return r, r.refill()
}

func (s *session) addQP(i int) error {
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, SRQ: s.srq, MaxSend: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	init := verbs.InitAttr{}
	switch s.cmd.service {
	case "uc":
		cfg.Type = verbs.UC
	case "ud":
		cfg.Type, init.QKey = verbs.UD, qKey
	}
	if s.srq == nil {
		cfg.MaxRecv = s.cmd.rxDepth
	}
	create := s.create
	if create == nil {
		create = (*verbs.PD).CreateQP
	}
	q, err := create(s.pd, cfg)
	if err != nil {
		return err
	}
	e := q.Endpoint()
	s.qps = append(s.qps, q)
	s.index[q.Number()] = i
	s.local[i] = destination{lid: e.UDPPort, qpn: e.QPN, psn: e.PSN, gid: e.GID}
	if s.onFabric() {
		s.local[i].lid = e.LID
		if s.cmd.noGID { // as ibv_*_pingpong without -g, which then sends without a GRH
			s.local[i].gid = verbs.GID{}
		}
	}
	if s.create != nil {
		return nil
	}
	return q.ToInit(init)
}

// onFabric reports whether the device is a port of an InfiniBand fabric, which has a LID.
func (s *session) onFabric() bool { return s.dev.Protocol() == verbs.InfiniBand }

// refill posts receives until all are posted.
func (s *session) refill() error {
	post := s.qps[0].PostRecv
	if s.srq != nil {
		post = s.srq.PostRecv
	}
	if err := post(s.recvWRs[s.posted:]...); err != nil {
		return fmt.Errorf("post receives: %w", err)
	}
	s.posted = len(s.recvWRs)
	return nil
}

// connect moves the queue pairs to RTS, each connected to the remote one of the same
// index.
func (s *session) connect(remote []destination) error {
	if n := len(s.qps); n < len(remote) && remote[n].qpn != 0 {
		return fmt.Errorf("the peer has more than %d queue pairs: both sides need the same -q", n)
	}
	for i, q := range s.qps {
		if err := remote[i].check(s.onFabric()); err != nil {
			return err
		}
		av := remote[i].path(s.cmd.gidIndex, s.cmd.sl)
		if s.onFabric() {
			av = remote[i].fabricPath(s.cmd.gidIndex, s.cmd.sl)
		}
		rtr := verbs.RTRAttr{MaxDestRdAtomic: 1, MinRNRTimer: 12}
		rts := verbs.RTSAttr{SQPSN: s.local[i].psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
		if s.cmd.service == "ud" {
			ah, err := s.pd.CreateAH(av)
			if err != nil {
				return err
			}
			s.sendWRs[0].AH, s.sendWRs[0].RemoteQPN, s.sendWRs[0].RemoteQKey = ah, remote[i].qpn, qKey
		} else {
			rtr.PathMTU, rtr.DestQPN, rtr.RQPSN, rtr.AV = s.cmd.mtu, remote[i].qpn, remote[i].psn, av
		}
		if err := q.ToRTR(rtr); err != nil {
			return err
		}
		if err := q.ToRTS(rts); err != nil {
			return err
		}
	}
	return nil
}

// run exchanges the messages. It ends early when ctx ends, a completion fails or
// nothing completes for the peer's timeout.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.watch(ctx, cancel)
	var ended atomic.Bool
	defer context.AfterFunc(ctx, func() { ended.Store(true) })()

	for i := range s.qps {
		s.waiting[i] = waitRecv
		if s.cmd.host != "" {
			if err := s.sendMessage(i); err != nil {
				return err
			}
		}
	}
	wcs := make([]verbs.WC, 64)
	for s.received < s.cmd.iters || s.sent < s.cmd.iters {
		if ended.Load() {
			return context.Cause(ctx)
		}
		if s.cmd.events {
			if err := s.cq.Wait(ctx); err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return err
			}
		}
		n, err := s.cq.Poll(wcs)
		if err != nil {
			return err
		}
		if n == 0 {
			runtime.Gosched()
			continue
		}
		if err := s.handleCompletions(wcs[:n]); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the session when nothing completes for the peer's timeout.
func (s *session) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(max(s.cmd.timeout/8, time.Millisecond))
	defer tick.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if n := s.progress.Load(); n != last {
				last, since = n, now
			} else if now.Sub(since) >= s.cmd.timeout {
				cancel(cli.PeerErrorf("no completion for %v, after %d completions; %s", s.cmd.timeout, n, s.silenceHint()))
				return
			}
		}
	}
}

// silenceHint describes what may have happened to a silent peer.
func (s *session) silenceHint() string {
	if s.cmd.service == "uc" || s.cmd.service == "ud" {
		return fmt.Sprintf("%s does not retransmit lost messages: try again, or use --pcap to see which are lost", s.cmd.service)
	}
	return "is the peer running with the same -t, -n, -s and -m, and is UDP port 4791 open?"
}

// handleCompletions handles completions. A flushed request only says that the queue
// pair failed. The completion with the cause precedes it or follows soon.
func (s *session) handleCompletions(wcs []verbs.WC) error {
	s.progress.Add(int64(len(wcs)))
	var flushed error
	for i := range wcs {
		w := &wcs[i]
		if w.Status == verbs.WRFlushErr {
			flushed = w.Err()
			continue
		}
		if err := w.Err(); err != nil {
			return fmt.Errorf("exchange %d of %d: %w", min(s.received+1, s.cmd.iters), s.cmd.iters, err)
		}
		if err := s.complete(w); err != nil {
			return err
		}
	}
	return flushed
}

func (s *session) complete(w *verbs.WC) error {
	i, ok := s.index[w.QPN]
	if !ok {
		return fmt.Errorf("completion of an unknown queue pair %#06x", w.QPN)
	}
	if w.WRID == waitSend {
		s.sent++
	} else if err := s.messageArrived(w); err != nil {
		return err
	}
	s.waiting[i] &^= uint8(w.WRID)
	if s.waiting[i] == 0 && s.sent < s.cmd.iters {
		return s.sendMessage(i)
	}
	return nil
}

// messageArrived handles a message of the peer.
func (s *session) messageArrived(w *verbs.WC) error {
	s.received++
	if want := s.payload.recvLen(); int(w.ByteLen) != want {
		return cli.DataErrorf("message %d has %d bytes, expected %d: both sides need the same -s",
			s.received, int(w.ByteLen)-s.payload.grh, want-s.payload.grh)
	}
	if s.cmd.check {
		if err := s.payload.check(); err != nil {
			return cli.DataErrorf("message %d: %w", s.received, err)
		}
	}
	s.posted--
	if s.posted < len(s.qps)+1 {
		return s.refill()
	}
	return nil
}

// sendMessage sends a message on queue pair i.
func (s *session) sendMessage(i int) error {
	if s.cmd.check {
		s.payload.fillNext(s.sent)
	}
	if err := s.qps[i].PostSend(s.sendWRs...); err != nil {
		if errors.Is(err, verbs.ErrQueueFull) {
			return fmt.Errorf("send before the last message was sent: %w", err)
		}
		return err
	}
	s.waiting[i] = waitRecv | waitSend
	return nil
}
