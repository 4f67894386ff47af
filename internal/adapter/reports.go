package adapter

import (
	"syscall"
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// reportBudget limits how many ICMP reports a lane handles within reportTime: each may
// need a search of every queue pair, and any host can send them.
const (
	reportBudget = 64
	reportTime   = time.Second
)

// reports is a lane's state for handling ICMP reports.
//
// Nobody waits for them. A lane learns of one when a later send on the flow fails
// because of it, and looks for them when a deadline of a queue pair passes: an answer
// is overdue then.
type reports struct {
	link    link.Reporter // nil where the link has none
	pending bool          // a send failed, which may have collected some
	left    int           // of reportBudget
	until   time.Duration // when it is filled up again
}

// handleReports passes the reports that failed sends have collected to the queue pairs
// whose packets they quote.
func (l *lane) handleReports(now time.Duration) {
	if l.reports.pending {
		l.reports.pending = false
		l.takeReports(now)
	}
}

// lookForReports does so with the reports about q's flow. Queue pairs of datagrams have
// none of their own.
func (l *lane) lookForReports(now time.Duration, q *QP) {
	if l.reports.link != nil && q.flow != nil {
		l.reports.link.Look(q.flow.Link)
		l.takeReports(now)
	}
}

// takeReports handles what the link has collected. A report that quotes no packet in
// flight is forged or late.
func (l *lane) takeReports(now time.Duration) {
	r := &l.reports
	if now >= r.until {
		r.left, r.until = reportBudget, now+reportTime
	}
	for p := r.link.NextReport(); p != nil; p = r.link.NextReport() {
		if r.left > 0 {
			r.left--
			l.handleReport(now, p)
		}
	}
}

func (l *lane) handleReport(now time.Duration, r *link.Report) {
	var h ib.BTH
	if !h.Parse(r.Quoted) {
		return // too little came back to tell whose packet it was
	}
	d := reason.Detail{Reason: reason.SendUnreachable, Expected: uint64(len(r.Quoted)), Found: uint64(r.Err)}
	if r.Err == syscall.ECONNREFUSED {
		d.Reason = reason.SendRefused
	}
	if h.DestQPN == gsi.QPN {
		l.reportToManager(now, r, &h, d)
		return
	}
	for _, q := range l.qps {
		if q.flow == nil || q.Attr.DestQPN != h.DestQPN || q.flow.Peer != r.Dst || q.flow.Local != r.Src {
			continue
		}
		if m, ok := q.m.(machine.UnreachableHandler); ok && m.Unreachable(now, &h, d) {
			q.sendError = d
			l.dev.Trace.Refuse(q.QPN, d)
			l.tasks.Set(&q.entry, q.deadline())
		}
		return
	}
}

// reportToManager gives a report to the communication manager, whose datagrams it
// quotes.
func (l *lane) reportToManager(now time.Duration, r *link.Report, h *ib.BTH, d reason.Detail) {
	const before = ib.BTHLen + ib.DETHLen
	if l.gsi == nil || h.Opcode != ib.UDSendOnly || len(r.Quoted) < before {
		return
	}
	g := l.gsi.m.(*gsi.GSI)
	if g.CM.Unreachable(now, r.Dst, r.Quoted[before:], d) {
		l.dev.Trace.Refuse(gsi.QPN, d)
		l.tasks.Set(&l.gsi.entry, g.Deadline())
	}
}
