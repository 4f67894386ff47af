// Package unreachable reads the reports of the network (ICMP) and of this host about packets
// that a lane has sent. It limits
// how many of them count, and decides nothing about queue pairs.
//
// No call waits for reports. A lane learns of one when a later send on the flow fails
// because of it, and looks for them when a deadline of a queue pair passes: an answer
// is overdue then.
package unreachable

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Each report may need a search of every queue pair, and any host can send them, so at most
// budget are handled within period.
const (
	budget = 64
	period = time.Second
)

// A Reader reads the reports of one lane's link. The zero value is one of a link without any.
type Reader struct {
	link    link.Reporter
	pending bool     // a send failed, which may have collected some
	local   []unsent // about packets that did not leave
	left    int      // of budget
	until   time.Duration
}

// An unsent is the report about a packet that this host has not sent.
type unsent struct {
	link.Report
	why reason.Detail
}

// NewReader makes the reader of a link; nil if it has no reports.
func NewReader(l link.Reporter) Reader { return Reader{link: l} }

// SendFailed notes that a send failed, after which there may be reports.
func (r *Reader) SendFailed() { r.pending = r.link != nil }

// NoRoute reports whether an error of a send means that this host has no route to the peer,
// that no host answers at the peer's address, or that the peer has refused this device.
func NoRoute(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.As(err, new(*link.Failure))
}

// Unsent adds a report about a packet that was not sent for such an error. The packet is
// copied.
func (r *Reader) Unsent(dst netip.AddrPort, packet []byte, err error) {
	if len(r.local) == budget {
		return
	}
	p := unsent{Report: link.Report{Dst: dst, Quoted: slices.Clone(packet), Err: syscall.EHOSTUNREACH}}
	if errors.Is(err, syscall.ENETUNREACH) {
		p.Err = syscall.ENETUNREACH
	}
	if f := (*link.Failure)(nil); errors.As(err, &f) {
		p.why = f.Detail
	}
	r.local, r.pending = append(r.local, p), true
}

// Pending reports whether a send has failed since Take was last called.
func (r *Reader) Pending() bool { return r.pending }

// Look asks for the reports about a flow, and reports whether the link has such.
func (r *Reader) Look(f *link.Flow) bool {
	if r.link == nil {
		return false
	}
	r.link.Look(f)
	return true
}

// Take calls handle with each report that was collected, the header of the packet that it
// quotes, and its reason. A report that quotes no packet in flight is forged or late.
func (r *Reader) Take(now time.Duration, handle func(p *link.Report, h *ib.BTH, d reason.Detail)) {
	r.pending = false
	if now >= r.until {
		r.left, r.until = budget, now+period
	}
	for p, why := r.next(); p != nil; p, why = r.next() {
		var h ib.BTH
		if r.left == 0 || !h.Parse(p.Quoted) { // too little came back to tell whose packet it was
			continue
		}
		r.left--
		d := reason.Detail{Reason: reason.SendUnreachable, Expected: uint64(len(p.Quoted)), Found: uint64(p.Err)}
		switch {
		case why.Reason != reason.None:
			d = why
		case p.Err == syscall.ECONNREFUSED:
			d.Reason = reason.SendRefused
		}
		handle(p, &h, d)
	}
}

// next removes a report and returns it with the reason that is known beyond it, nil if there is none. Those of the link
// go first, because they say more.
func (r *Reader) next() (*link.Report, reason.Detail) {
	if r.link != nil {
		if p := r.link.NextReport(); p != nil {
			return p, reason.Detail{}
		}
	}
	if n := len(r.local); n > 0 {
		p := r.local[n-1]
		r.local = r.local[:n-1]
		return &p.Report, p.why
	}
	return nil, reason.Detail{}
}
