//go:build linux

package umad

import (
	"container/heap"
	"slices"
	"time"

	machine "softrdma/internal/management/rmpp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
)

// The limits of multi-packet transfers. Linux gives a transfer that arrives 40 seconds, and
// waits for an ACK two seconds at most.
const (
	maxTransfers = 64      // of a file that arrive, and as many that have arrived
	maxTransfer  = 4 << 20 // bytes
	arrivalTime  = 40 * time.Second
	ackTime      = 2 * time.Second
	minRetries   = 3
)

// A transferKey identifies a transfer of an agent.
type transferKey struct {
	transaction
	peer   [16]byte
	global bool
}

// peerOf returns what identifies a peer: its GID, or its LID.
func peerOf(a *Address) [16]byte {
	if a.Global {
		return a.GID
	}
	return [16]byte{0: byte(a.LID >> 8), 1: byte(a.LID)}
}

// An inbound is a transfer that arrives.
type inbound struct {
	*machine.Receiver
	agent     *agent
	key       transferKey
	from      MAD // its first datagram
	delivered bool
	whole     []byte // for the program, in agents.complete
	held      int64  // of the user's memory
}

// An outbound is a transfer that leaves.
type outbound struct {
	*machine.Sender
	request *request
	key     transferKey
}

// dispatch starts the transfer of a request, whose data follows the headers of its datagram.
// The caller holds agents.mu.
func (a *agents) dispatch(r *request, data []byte) {
	c := machine.Config{HeaderLen: dataOffset(r.key.class) - transferLen, Timeout: ackTime, Retries: max(int(min(r.retries, 100)), minRetries)}
	if r.timeout > 0 {
		c.Timeout = min(r.timeout, ackTime)
	}
	r.due = never
	r.out = &outbound{machine.NewSender(&c, &r.mad.Data, data), r, transferKey{r.key.transaction, peerOf(&r.mad.Peer), r.mad.Peer.Global}}
	r.agent.outbound[r.out.key] = r.out
	a.outbound[r.out] = struct{}{}
	a.begin(r)
}

// transferred ends a transfer that leaves. Its request then waits for the response. The
// caller holds agents.mu.
func (a *agents) transferred(now time.Duration, o *outbound, status rmpp.Status) {
	r := o.request
	a.forgetOutbound(o)
	switch {
	case status == rmpp.StatusNormal && r.timeout > 0: // it has arrived, so it is not repeated
		r.due, r.retries = now+r.timeout*time.Duration(min(r.retries, 100)+1), 0
		heap.Fix(&a.requests, r.index)
		return
	case status == rmpp.StatusRetries:
		r.agent.file.timedOut(r)
	}
	a.end(r)
}

func (a *agents) forgetOutbound(o *outbound) {
	delete(a.outbound, o)
	delete(o.request.agent.outbound, o.key)
	o.request.out = nil
}

// hold counts the data of a transfer that arrives.
func (in *inbound) hold(data int) error {
	n := int64(recordBytes + data)
	if n <= in.held {
		return nil
	}
	err := in.agent.file.memory.Take(n - in.held)
	if err == nil {
		in.held = n
	}
	return err
}

func (a *agents) forgetInbound(in *inbound) {
	delete(a.inbound, in)
	delete(in.agent.inbound, in.key)
	f := in.agent.file
	f.memory.Return(in.held)
	in.held = 0
	if i := slices.Index(f.arrivals, in); i >= 0 {
		f.arrivals = slices.Delete(f.arrivals, i, i+1)
	} else {
		f.transfers--
	}
}

// delivered notes that all of a transfer has arrived. It stays for a time to acknowledge what
// the peer repeats, unless others follow.
func (a *agents) delivered(in *inbound) {
	in.delivered = true
	f := in.agent.file
	f.transfers--
	f.arrivals = append(f.arrivals, in)
	if len(f.arrivals) > maxTransfers {
		a.forgetInbound(f.arrivals[0])
	}
}

// segment takes a packet of a transfer of an agent. The caller holds agents.mu.
func (a *agents) segment(now time.Duration, g *agent, m *MAD, h *mad.Header) reason.Detail {
	var p rmpp.Header
	p.Parse(&m.Data)
	k := transferKey{transaction{h.TID, h.Class}, peerOf(&m.Peer), m.Peer.Global}
	defer a.notify()
	if o := g.outbound[k]; o != nil && p.Type != rmpp.Data {
		o.Receive(now, &p)
		return reason.Detail{}
	}
	var waits *request
	if response(h) {
		waits = g.requests[k.transaction]
	}
	in := g.inbound[k]
	switch {
	case in != nil:
	case p.Type != rmpp.Data, response(h) && waits == nil:
		return reason.Detail{Reason: reason.MADNoRequest, Expected: uint64(h.Class), Found: h.TID}
	case g.file.transfers >= maxTransfers:
		return reason.Detail{Reason: reason.MADReceiveQueue, Expected: maxTransfers, Found: maxTransfers + 1}
	default:
		c := machine.Config{HeaderLen: dataOffset(h.Class) - transferLen, Timeout: arrivalTime, MaxLen: maxTransfer}
		in = &inbound{Receiver: machine.NewReceiver(&c, now, &m.Data), agent: g, key: k, from: *m}
		g.inbound[k] = in
		a.inbound[in] = struct{}{}
		g.file.transfers++
	}
	in.Receive(now, &m.Data)
	first, data, complete := in.Data()
	if err := in.hold(len(data)); err != nil {
		a.forgetInbound(in)
		return client.Why(err)
	}
	if waits != nil { // it is not repeated while the response arrives
		waits.due = max(waits.due, now+waits.timeout)
		heap.Fix(&a.requests, waits.index)
	}
	if !complete || in.delivered {
		return reason.Detail{}
	}
	a.delivered(in)
	if waits != nil {
		a.end(waits)
	}
	if d := g.file.full(); d.Reason != reason.None {
		return d
	}
	in.whole = slices.Concat(first[:dataOffset(h.Class)], data)
	a.complete = append(a.complete, in)
	return reason.Detail{}
}

// hand gives transfers to their programs. Their ACKs have left before, as Linux does it: the
// peer otherwise keeps a transfer for each request of a program that asks in a loop.
func (a *agents) hand(complete []*inbound) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, in := range complete {
		if g := in.agent; a.byTID[g.tid] == g {
			_ = g.file.arrived(g, &in.from, in.whole) // there was room when it had arrived
		}
		in.whole = nil
	}
}

// transfer lets the transfers send, and ends those that are over. The caller holds
// agents.mu.
func (a *agents) transfer(now time.Duration) (out []MAD) {
	for in := range a.inbound {
		over := in.Expire(now)
		for m := in.from; in.Next(&m.Data); {
			out = append(out, m)
		}
		if over {
			a.forgetInbound(in)
		}
	}
	for o := range a.outbound {
		for m := o.request.mad; o.Next(now, &m.Data); {
			out = append(out, m)
		}
		if status, done := o.Done(); done {
			a.transferred(now, o, status)
		}
	}
	return out
}

// transferDeadline is when transfer is to be called next. The caller holds agents.mu.
func (a *agents) transferDeadline() time.Duration {
	due := never
	for in := range a.inbound {
		due = min(due, in.Deadline())
	}
	for o := range a.outbound {
		due = min(due, o.Deadline())
	}
	return due
}
