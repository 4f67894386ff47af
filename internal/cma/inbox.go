package cma

import (
	"bytes"
	"sync"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/iwarp"
)

// A report is a queued event of a device's communication manager.
type report struct {
	dev *device
	cm.Event
	stream *adapter.StreamEvent // set for an iWARP device, instead of the event
}

// The inbox queues what communication managers report. They report with their
// device's lane held, so the report must not block and must not take other locks.
// The Manager handles the queue under its own lock, which is taken before a lane's.
type inbox struct {
	m       *Manager
	running sync.WaitGroup

	mu      sync.Mutex // the innermost lock
	list    []report
	serving bool
}

// add queues an event and starts the goroutine that serves the inbox, if it is not
// running.
func (b *inbox) add(d *device, e *cm.Event) { b.put(report{dev: d, Event: keep(e)}) }

func (b *inbox) put(r report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, r)
	if b.m.cfg.Manual || b.serving {
		return
	}
	b.serving = true
	b.running.Go(b.run)
}

// keep copies the data that the communication manager reuses after the report.
func keep(e *cm.Event) cm.Event {
	k := *e
	k.Private, k.ARI = bytes.Clone(e.Private), bytes.Clone(e.ARI)
	k.REQ, k.REP, k.SIDRReq, k.SIDRRep = clone(e.REQ), clone(e.REP), clone(e.SIDRReq), clone(e.SIDRRep)
	return k
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// run serves the inbox until it is empty.
func (b *inbox) run() {
	for b.more() {
		b.m.lock()
		b.m.unlock()
	}
}

// more reports whether the inbox has reports. If not, it also notes that the
// goroutine ends.
func (b *inbox) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = len(b.list) > 0
	return b.serving
}

func (b *inbox) take() (list []report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, b.list = b.list, nil
	return list
}

// serve handles the queued reports in order and reports whether there were any.
func (m *Manager) serve() (served bool) {
	for {
		list := m.inbox.take()
		if len(list) == 0 {
			return served
		}
		served = true
		for i := range list {
			m.handle(&list[i])
		}
	}
}

// handle handles one report.
func (m *Manager) handle(r *report) {
	if e := r.stream; e != nil {
		if id, ok := e.On.Context.(*ID); ok {
			id.streamReport(e)
		} else if e.Kind == iwarp.Requested {
			m.streamRequest(r.dev, e)
		}
		return
	}
	switch r.Kind {
	case cm.EventReqReceived, cm.EventSidrReqReceived:
		m.request(r)
	case cm.EventSidrRepReceived, cm.EventSidrTimeout:
		if id, ok := r.Lookup.Context.(*ID); ok && id.state == cmid.Connect && id.datagram.lookup == r.Lookup {
			id.push(id.datagram.outcome(r))
		}
	default:
		if id, ok := r.Conn.Context.(*ID); ok {
			id.report(r)
		}
	}
}
