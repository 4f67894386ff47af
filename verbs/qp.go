package verbs

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A QPType is a transport service. The numbers are those of ibv_qp_type.
type QPType uint8

// The services.
const (
	RC QPType = 2 // reliable connection
	UC QPType = 3 // unreliable connection
	UD QPType = 4 // unreliable datagram

	XRCSend QPType = 9  // extended reliable connection, the initiator; see XRCD
	XRCRecv QPType = 10 // the same, the target; see XRCD.CreateTarget
)

// String returns the usual name, as "RC".
func (t QPType) String() string { return qp.Type(t).String() }

// A State is the state of a queue pair (IBTA 10.3.1). The numbers are those of
// ibv_qp_state.
type State uint8

// The states.
const (
	Reset State = 0 // nothing can be posted
	Init  State = 1 // receives can be posted
	RTR   State = 2 // ready to receive: accepts packets
	RTS   State = 3 // ready to send
	SQD   State = 4 // send queue drained or draining
	SQE   State = 5 // send queue stopped by an error (UC, UD)
	Err   State = 6 // all requests are flushed
)

// String returns the specification's name, as "RESET".
func (s State) String() string { return qp.State(s).String() }

// QPConfig configures a queue pair.
type QPConfig struct {
	Type   QPType // required
	SendCQ *CQ    // required
	RecvCQ *CQ    // nil means SendCQ
	SRQ    *SRQ   // shared receive queue; nil for a private receive queue

	MaxSend    int // depth of the send queue, 1 to MaxQueueDepth; 0 means 128
	MaxRecv    int // depth of the receive queue; 0 means 128; not with SRQ
	MaxSendSGE int // entries of a request, at most MaxSGE; 0 means 4
	MaxRecvSGE int // 0 means 4
	MaxInline  int // bytes of inline data, at most MaxInline

	// For RC over RoCE; Congestion also for UC. Empty means the device's choice.
	Congestion CongestionControl
	Recovery   Recovery

	// PeerTimeout is how long the peer of an RC queue pair may be silent before the
	// connection fails; 0 means the device's value, and a negative value means no
	// timeout. See Config.PeerTimeout. PeerProbe is the silence after which the
	// peer is probed; 0 means a quarter of PeerTimeout. Over RoCE, if the peer's
	// process has ended and its host reports that by ICMP, the connection fails
	// about a second after the probe. Over iWARP TCP reports it at once.
	PeerTimeout time.Duration
	PeerProbe   time.Duration

	SignalAll bool // every send request completes with a WC (sq_sig_all)
}

// A QP is a queue pair.
type QP struct {
	dev            *Device
	pd             *PD // nil for XRCRecv
	drv            provider.QP
	typ            QPType
	sq             *queue.SendRing
	rq             *queue.RecvRing // nil with srq and for XRC
	sendCQ, recvCQ *CQ
	srq            *SRQ

	sendMu, recvMu sync.Mutex // producers of the two rings

	psn atomic.Uint32 // psnChosen and the PSN of Endpoint, or 0
}

// CreateQP makes a queue pair in state RESET (IBTA 11.2.5.1). Its number is
// unpredictable.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	if cfg.Type == XRCRecv {
		return nil, reason.BadArgument(0, 0, "create QP: a queue pair of type %v belongs to an XRC domain: call XRCD.CreateTarget", cfg.Type)
	}
	if cfg.Type != RC && cfg.Type != UC && cfg.Type != UD && (cfg.Type != XRCSend || !p.dev.attr.XRC) {
		return nil, reason.NotSupported("create QP: type: expected RC, UC, UD or, on a device that has XRC, XRC_SEND, found %v", cfg.Type)
	}
	if err := cfg.checkXRC(); err != nil {
		return nil, err
	}
	if cfg.SendCQ == nil {
		return nil, reason.BadArgument(0, 0, "create QP: expected a SendCQ, found none")
	}
	if cfg.RecvCQ == nil {
		cfg.RecvCQ = cfg.SendCQ
	}
	if cfg.SendCQ.dev != p.dev || cfg.RecvCQ.dev != p.dev || cfg.SRQ != nil && cfg.SRQ.pd.dev != p.dev {
		return nil, reason.BadArgument(0, 0, "create QP: expected completion queues and an SRQ of its device, found another device's")
	}
	if cfg.SRQ != nil && cfg.SRQ.number != 0 {
		return nil, reason.BadArgument(0, uint64(cfg.SRQ.number), "create QP: expected an SRQ without an XRC domain, found XRC SRQ %#x: call XRCD.CreateTarget", cfg.SRQ.number)
	}
	c, err := cfg.driver()
	if err != nil {
		return nil, err
	}
	if err := cfg.transmission(p.dev.protocol, c); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	q := &QP{dev: p.dev, pd: p, typ: cfg.Type, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ, srq: cfg.SRQ}
	if q.drv, err = p.drv.CreateQP(c, q); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	q.sq, q.rq = q.drv.SendRing(), q.drv.RecvRing()
	return q, nil
}

func (c *QPConfig) driver() (*provider.QPConfig, error) {
	a := &provider.QPConfig{Type: qp.Type(c.Type), SendCQ: c.SendCQ.drv, RecvCQ: c.RecvCQ.drv, SignalAll: c.SignalAll, Inline: c.MaxInline}
	var err error
	for _, d := range []struct {
		what            string
		n, def, highest int
		to              *int
	}{
		{"QP send queue", c.MaxSend, 128, MaxQueueDepth, &a.SendDepth},
		{"QP receive queue", c.MaxRecv, 128, MaxQueueDepth, &a.RecvDepth},
		{"QP send entries", c.MaxSendSGE, 4, MaxSGE, &a.SendSGE},
		{"QP receive entries", c.MaxRecvSGE, 4, MaxSGE, &a.RecvSGE},
	} {
		if *d.to, err = depthOf(d.what, d.n, d.def, d.highest); err != nil {
			return nil, err
		}
	}
	if c.MaxInline < 0 || c.MaxInline > MaxInline {
		return nil, reason.BadArgument(MaxInline, uint64(c.MaxInline), "create QP: inline data: expected 0 to %d bytes, found %d", MaxInline, c.MaxInline)
	}
	if c.SRQ != nil {
		a.SRQ = c.SRQ.drv
	}
	return a, nil
}

// Number returns the queue pair's number, 24 bits.
func (q *QP) Number() uint32 { return q.drv.Number() }

// Type returns the transport service.
func (q *QP) Type() QPType { return q.typ }

// PD returns the protection domain, or nil for a queue pair of type XRCRecv.
func (q *QP) PD() *PD { return q.pd }

// Device returns the device.
func (q *QP) Device() *Device { return q.dev }

// State returns the current state.
func (q *QP) State() State { return State(q.drv.Query().State) }

// Destroy destroys the queue pair. Outstanding requests will never complete. When it returns
// the device no longer accesses their memory. A second Destroy does nothing.
func (q *QP) Destroy() error { return q.drv.Destroy() }

// TrimSend makes the send queue shorter, to hold n requests or a few more, before the first request is posted: for
// programs that learn only from the connection how many they need. A queue with a posted request, or
// whose memory belongs to another process, keeps its length. No other call may use the queue pair meanwhile.
func (q *QP) TrimSend(n int) {
	if n > 0 {
		q.sq.Trim(n)
	}
}

// PostSend posts requests to the send queue, in order (IBTA 11.4.1.1). It copies
// them, never blocks, and allocates only to return an error. The error is a
// *PostError: it wraps ErrQueueFull if there is no room, else it says what is wrong
// with a request. Errors of keys, bounds and rights come as completions. In RESET,
// INIT and RTR nothing can be posted; in ERR requests complete as flushed.
func (q *QP) PostSend(wrs ...SendWR) error {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.typ == XRCRecv {
		return reason.BadArgument(0, 0, "post send: a queue pair of type %v sends nothing", q.typ)
	}
	if s := State(q.drv.StateHint()); s < RTS {
		return q.refuse("post sends", RTS, s)
	}
	r := q.sq
	i, full := r.Producer(), r.Depth()-r.Len()
	var err error
	for k := range wrs {
		if k >= full {
			err = &PostError{k, queueFull(r.Depth(), r.Len()+k)}
			break
		}
		if e := q.encode(&wrs[k], i); e != nil {
			err = &PostError{Index: k, Err: e}
			break
		}
		i = r.Next(i)
	}
	r.Publish(i)
	q.drv.Doorbell()
	return err
}

// refuse returns why nothing can be posted: because of the state, or because the queue pair or
// its device is gone.
func (q *QP) refuse(what string, want, found State) error {
	if err := q.drv.Gone(); err != nil {
		return &PostError{Err: err}
	}
	d := reason.Detail{Reason: reason.LocalQPState, Expected: uint64(want), Found: uint64(found)}
	return &PostError{Err: fmt.Errorf("%w: %s before you %s", d.Err(), q.advice(want, found), what)}
}

// advice names the call that takes the queue pair from its state to one that the post needs.
func (q *QP) advice(want, found State) string {
	switch {
	case found == Reset && want == Init && q.dev.protocol == IWARP:
		return "call ToInit, or connect through package rdmacm,"
	case q.dev.protocol == IWARP:
		return "connect through package rdmacm"
	case found == Reset && want == Init:
		return "call ToInit, or Connect,"
	case q.typ == UD && found == Reset:
		return "call ToInit, ToRTR and ToRTS"
	case found == Reset:
		return "call Connect (or ToInit, ToRTR and ToRTS)"
	case q.typ == UD && found == Init:
		return "call ToRTR and ToRTS"
	case found == Init:
		return "call Connect (or ToRTR and ToRTS)"
	}
	return "call ToRTS"
}

func (q *QP) encode(w *SendWR, i uint32) error {
	if err := q.drv.Supports(queue.Op(w.Op)); err != nil {
		return err
	}
	if err := w.encode(q.sq, i); err != nil {
		return err
	}
	switch q.typ {
	case UD:
	case XRCSend:
		return w.encodeXRC(q, i)
	default:
		return nil
	}
	if w.AH == nil {
		return reason.BadArgument(0, 0, "UD work request: expected an AH, found none")
	}
	if w.AH.pd != q.pd {
		return reason.BadArgument(0, 0, "UD work request: expected an AH of the queue pair's protection domain, found another's")
	}
	u := q.sq.At(i).UD()
	*u = queue.UD{RemoteQPN: w.RemoteQPN, RemoteQKey: w.RemoteQKey, AHNum: w.AH.num}
	return nil
}

// PostRecv posts requests to the queue pair's own receive queue, in order (IBTA
// 11.4.1.2). It copies them and never blocks. The error is a *PostError. In RESET
// nothing can be posted: call ToInit first, and Connect afterwards.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	if q.srq != nil {
		return reason.BadArgument(0, 0, "post receive: the queue pair receives from an SRQ")
	}
	if q.rq == nil {
		return reason.BadArgument(0, 0, "post receive: a queue pair of type %v has no receive queue: post to an SRQ of the XRC domain", q.typ)
	}
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if s := State(q.drv.StateHint()); s == Reset {
		return q.refuse("post receives", Init, s)
	}
	err := postRecv(q.rq, wrs)
	q.drv.PostedReceives()
	if State(q.drv.StateHint()) == Err {
		q.drv.Doorbell() // flushes the requests
	}
	return err
}

func postRecv(r *queue.RecvRing, wrs []RecvWR) error {
	i, room := r.Producer(), r.Depth()-r.Len()
	var err error
	for k := range wrs {
		w := &wrs[k]
		if k >= room {
			err = &PostError{k, queueFull(r.Depth(), r.Len()+k)}
			break
		}
		if len(w.SGL) > r.MaxSGE() {
			err = &PostError{k, refusal(reason.TooManySGEs, r.MaxSGE(), len(w.SGL))}
			break
		}
		e := r.At(i)
		*e = queue.RecvWQE{WRID: w.WRID, NumSGE: uint32(len(w.SGL))}
		room := r.SGERoom(i)
		for j := range w.SGL {
			room[j] = memory.SGE(w.SGL[j])
		}
		i = r.Next(i)
	}
	r.Publish(i)
	return err
}

// AttachMulticast makes a UD queue pair receive datagrams to a multicast group,
// and joins the group on the device's interface (IBTA 10.5, 11.3).
func (q *QP) AttachMulticast(group netip.Addr) error { return q.drv.AttachMulticast(group) }

// DetachMulticast undoes AttachMulticast.
func (q *QP) DetachMulticast(group netip.Addr) error { return q.drv.DetachMulticast(group) }
