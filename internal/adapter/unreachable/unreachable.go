// Package unreachable reads the ICMP reports about packets that a lane has sent. It limits
// how many of them count, and decides nothing about queue pairs.
//
// Nobody waits for reports. A lane learns of one when a later send on the flow fails
// because of it, and looks for them when a deadline of a queue pair passes: an answer
// is overdue then.
package unreachable

import (
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
	pending bool // a send failed, which may have collected some
	left    int  // of budget
	until   time.Duration
}

// NewReader makes the reader of a link, which may have no reports.
func NewReader(l link.Packets) Reader {
	reporter, _ := l.(link.Reporter)
	return Reader{link: reporter}
}

// SendFailed notes that a send failed, after which there may be reports.
func (r *Reader) SendFailed() { r.pending = r.link != nil }

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
	for p := r.link.NextReport(); p != nil; p = r.link.NextReport() {
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
