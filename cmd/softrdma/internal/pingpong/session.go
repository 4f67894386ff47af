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

func (r *session) addQP(i int) error {
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, SRQ: r.srq, MaxSend: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	init := verbs.InitAttr{}
	switch r.cmd.service {
	case "uc":
		cfg.Type = verbs.UC
	case "ud":
		cfg.Type, init.QKey = verbs.UD, qKey
	}
	if r.srq == nil {
		cfg.MaxRecv = r.cmd.rxDepth
	}
	create := r.create
	if create == nil {
		create = (*verbs.PD).CreateQP
	}
	q, err := create(r.pd, cfg)
	if err != nil {
		return err
	}
	e := q.Endpoint()
	r.qps = append(r.qps, q)
	r.index[q.Number()] = i
	r.local[i] = destination{lid: e.UDPPort, qpn: e.QPN, psn: e.PSN, gid: e.GID}
	if r.create != nil {
		return nil
	}
	return q.ToInit(init)
}

// refill posts receives until all are posted.
func (r *session) refill() error {
	post := r.qps[0].PostRecv
	if r.srq != nil {
		post = r.srq.PostRecv
	}
	if err := post(r.recvWRs[r.posted:]...); err != nil {
		return fmt.Errorf("post receives: %w", err)
	}
	r.posted = len(r.recvWRs)
	return nil
}

// connect moves the queue pairs to RTS, each connected to the remote one of the same
// index.
func (r *session) connect(remote []destination) error {
	if n := len(r.qps); n < len(remote) && remote[n].qpn != 0 {
		return fmt.Errorf("the peer has more than %d queue pairs: both sides need the same -q", n)
	}
	for i, q := range r.qps {
		if err := remote[i].check(); err != nil {
			return err
		}
		av := remote[i].path(r.cmd.gidIndex, r.cmd.sl)
		rtr := verbs.RTRAttr{MaxDestRdAtomic: 1, MinRNRTimer: 12}
		rts := verbs.RTSAttr{SQPSN: r.local[i].psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
		if r.cmd.service == "ud" {
			ah, err := r.pd.CreateAH(av)
			if err != nil {
				return err
			}
			r.sendWRs[0].AH, r.sendWRs[0].RemoteQPN, r.sendWRs[0].RemoteQKey = ah, remote[i].qpn, qKey
		} else {
			rtr.PathMTU, rtr.DestQPN, rtr.RQPSN, rtr.AV = r.cmd.mtu, remote[i].qpn, remote[i].psn, av
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
func (r *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go r.watch(ctx, cancel)
	var ended atomic.Bool
	defer context.AfterFunc(ctx, func() { ended.Store(true) })()

	for i := range r.qps {
		r.waiting[i] = waitRecv
		if r.cmd.host != "" {
			if err := r.sendMessage(i); err != nil {
				return err
			}
		}
	}
	wcs := make([]verbs.WC, 64)
	for r.received < r.cmd.iters || r.sent < r.cmd.iters {
		if ended.Load() {
			return context.Cause(ctx)
		}
		if r.cmd.events {
			if err := r.cq.Wait(ctx); err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return err
			}
		}
		n, err := r.cq.Poll(wcs)
		if err != nil {
			return err
		}
		if n == 0 {
			runtime.Gosched()
			continue
		}
		if err := r.handleCompletions(wcs[:n]); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the session when nothing completes for the peer's timeout.
func (r *session) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(max(r.cmd.timeout/8, time.Millisecond))
	defer tick.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if n := r.progress.Load(); n != last {
				last, since = n, now
			} else if now.Sub(since) >= r.cmd.timeout {
				cancel(cli.PeerErrorf("no completion for %v, after %d completions; %s", r.cmd.timeout, n, r.silenceHint()))
				return
			}
		}
	}
}

// silenceHint describes what may have happened to a silent peer.
func (r *session) silenceHint() string {
	if r.cmd.service == "uc" || r.cmd.service == "ud" {
		return fmt.Sprintf("%s does not retransmit lost messages: try again, or use --pcap to see which are lost", r.cmd.service)
	}
	return "is the peer running with the same -t, -n, -s and -m, and is UDP port 4791 open?"
}

// handleCompletions handles completions. A flushed request only says that the queue
// pair failed. The completion with the cause precedes it or follows soon.
func (r *session) handleCompletions(wcs []verbs.WC) error {
	r.progress.Add(int64(len(wcs)))
	var flushed error
	for i := range wcs {
		w := &wcs[i]
		if w.Status == verbs.WRFlushErr {
			flushed = w.Err()
			continue
		}
		if err := w.Err(); err != nil {
			return fmt.Errorf("exchange %d of %d: %w", min(r.received+1, r.cmd.iters), r.cmd.iters, err)
		}
		if err := r.complete(w); err != nil {
			return err
		}
	}
	return flushed
}

func (r *session) complete(w *verbs.WC) error {
	i, ok := r.index[w.QPN]
	if !ok {
		return fmt.Errorf("completion of an unknown queue pair %#06x", w.QPN)
	}
	if w.WRID == waitSend {
		r.sent++
	} else if err := r.messageArrived(w); err != nil {
		return err
	}
	r.waiting[i] &^= uint8(w.WRID)
	if r.waiting[i] == 0 && r.sent < r.cmd.iters {
		return r.sendMessage(i)
	}
	return nil
}

// messageArrived handles a message of the peer.
func (r *session) messageArrived(w *verbs.WC) error {
	r.received++
	if want := r.payload.recvLen(); int(w.ByteLen) != want {
		return cli.DataErrorf("message %d has %d bytes, expected %d: both sides need the same -s",
			r.received, int(w.ByteLen)-r.payload.grh, want-r.payload.grh)
	}
	if r.cmd.check {
		if err := r.payload.check(); err != nil {
			return cli.DataErrorf("message %d: %w", r.received, err)
		}
	}
	r.posted--
	if r.posted < len(r.qps)+1 {
		return r.refill()
	}
	return nil
}

// sendMessage sends a message on queue pair i.
func (r *session) sendMessage(i int) error {
	if r.cmd.check {
		r.payload.fillNext(r.sent)
	}
	if err := r.qps[i].PostSend(r.sendWRs...); err != nil {
		if errors.Is(err, verbs.ErrQueueFull) {
			return fmt.Errorf("send before the last message was sent: %w", err)
		}
		return err
	}
	r.waiting[i] = waitRecv | waitSend
	return nil
}
