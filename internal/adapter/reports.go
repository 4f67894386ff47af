package adapter

import (
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// hearBudget limits how many ICMP reports a lane handles within hearTime: each may
// need a search of every queue pair, and any host can send them.
const (
	hearBudget = 64
	hearTime   = time.Second
)

// A hearing is a lane's state for handling ICMP reports.
type hearing struct {
	link  link.Reporter // nil where the link has none
	left  int           // of hearBudget
	until time.Duration // when it is filled up again
}

// hear passes ICMP reports to the queue pairs whose packets they quote. A report that
// quotes no packet in flight is forged or late.
func (l *lane) hear(now time.Duration) {
	if l.hearing.link == nil || !l.hearing.link.Reported() {
		return
	}
	if now >= l.hearing.until {
		l.hearing.left, l.hearing.until = hearBudget, now+hearTime
	}
	l.hearing.link.Reports(func(r *link.Report) {
		if l.hearing.left == 0 {
			return
		}
		l.hearing.left--
		l.hearReport(now, r)
	})
}

func (l *lane) hearReport(now time.Duration, r *link.Report) {
	var h ib.BTH
	if !h.Parse(r.Quoted) {
		return // too little came back to tell whose packet it was
	}
	d := reason.Detail{Reason: reason.SendUnreachable, Expected: uint64(len(r.Quoted)), Found: uint64(r.Err)}
	if r.Err == syscall.ECONNREFUSED {
		d.Reason = reason.SendRefused
	}
	if h.DestQPN == gsiQPN {
		l.hearManager(now, r, &h, d)
		return
	}
	for _, q := range l.qps {
		if q.flow == nil || q.Attr.DestQPN != h.DestQPN || q.flow.flow.Dst != r.Dst || q.flow.flow.Src != r.Src {
			continue
		}
		if m, ok := q.m.(machine.UnreachableHandler); ok && m.Unreachable(now, &h, d) {
			q.sendError = d
			l.dev.Trace.Refuse(q.QPN, d)
			l.timers.set(q, q.deadline())
		}
		return
	}
}

// hearManager gives a report to the communication manager, whose datagrams it quotes.
func (l *lane) hearManager(now time.Duration, r *link.Report, h *ib.BTH, d reason.Detail) {
	const before = ib.BTHLen + ib.DETHLen
	if l.gsi == nil || h.Opcode != ib.UDSendOnly || len(r.Quoted) < before {
		return
	}
	g := l.gsi.m.(*gsi)
	if g.cm.Unreachable(now, r.Dst, r.Quoted[before:], d) {
		l.dev.Trace.Refuse(gsiQPN, d)
		l.timers.set(l.gsi, g.Deadline())
	}
}
