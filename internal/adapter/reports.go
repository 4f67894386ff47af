package adapter

import (
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// lookForReports takes the reports about q's flow.
func (l *packetLane) lookForReports(now time.Duration, q *QP) {
	if l.reports.Look(q.flow.Link) {
		l.takeReports(now)
	}
}

// takeReports passes the reports that failed sends have collected to the queue pairs
// whose packets they quote.
func (l *packetLane) takeReports(now time.Duration) {
	l.reports.Take(now, func(r *link.Report, h *ib.BTH, d reason.Detail) {
		if h.DestQPN == gsi.QPN {
			l.reportToManager(now, r, h, d)
			return
		}
		for _, q := range l.qps {
			if q.flow == nil || q.Attr.DestQPN != h.DestQPN || q.flow.Peer != r.Dst || q.flow.Local != r.Src {
				continue
			}
			if m := q.can.Unreachable; m != nil && m.Unreachable(now, h, d) {
				q.sendError = d
				l.dev.Trace.Refuse(q.QPN, d)
				l.tasks.Set(&q.entry, q.deadline())
			}
			return
		}
	})
}

// reportToManager gives a report to the communication manager, whose datagrams it
// quotes.
func (l *packetLane) reportToManager(now time.Duration, r *link.Report, h *ib.BTH, d reason.Detail) {
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
