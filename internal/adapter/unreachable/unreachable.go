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
	pending bool          // a send failed, which may have collected some
	local   []link.Report // about packets that this host had no route for
	left    int           // of budget
	until   time.Duration
}

// NewReader makes the reader of a link; nil if it has no reports.
func NewReader(l link.Reporter) Reader { return Reader{link: l} }

// SendFailed notes that a send failed, after which there may be reports.
func (r *Reader) SendFailed() { r.pending = r.link != nil }

// NoRoute reports whether an error of a send means that this host has no route to the peer,
// or that no host answers at the peer's address.
func NoRoute(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}

// Unsent adds a report about a packet that was not sent for such an error. The packet is
// copied.
func (r *Reader) Unsent(dst netip.AddrPort, packet []byte, err error) {
	if len(r.local) == budget {
		return
	}
	p := link.Report{Dst: dst, Quoted: slices.Clone(packet), Err: syscall.EHOSTUNREACH}
	if errors.Is(err, syscall.ENETUNREACH) {
		p.Err = syscall.ENETUNREACH
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
	for p := r.next(); p != nil; p = r.next() {
		var h ib.BTH
		if r.left == 0 || !h.Parse(p.Quoted) { // too little came back to tell whose packet it was
			continue
		}
		r.left--
		d := reason.Detail{Reason: reason.SendUnreachable, Expected: uint64(len(p.Quoted)), Found: uint64(p.Err)}
		if p.Err == syscall.ECONNREFUSED {
			d.Reason = reason.SendRefused
		}
		handle(p, &h, d)
	}
}

// next removes a report and returns it, nil if there is none. Those of the link go first, because they say more.
func (r *Reader) next() *link.Report {
	if r.link != nil {
		if p := r.link.NextReport(); p != nil {
			return p
		}
	}
	if n := len(r.local); n > 0 {
		p := r.local[n-1]
		r.local = r.local[:n-1]
		return &p
	}
	return nil
}
