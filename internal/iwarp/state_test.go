package iwarp

import (
	"errors"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

func TestAbortInEveryState(t *testing.T) {
	asked := newSetup(t, nil)
	asked.receive(frameBytes(iwarp.Frame{Revision: 1}, nil, nil))
	for name, r := range map[string]*raw{
		"initiator": newInitiator(t, defaults()), "responder": newSetup(t, nil), "requested": asked, "operating": newRaw(t, defaults(), nil),
	} {
		heard := len(r.events)
		operates := r.Attr.State == qp.RTS
		if operates {
			r.post(queue.Read, 0, 10, queue.RDMA{})
			r.PostRecv(1)
			r.drain()
		}
		r.s.Abort(0)
		r.s.Closed(0, true)
		if len(r.events) != heard || r.s.Shut() != ShutAbort || r.s.Deadline() != machine.Never || r.q.Stream() != nil {
			t.Errorf("%s: heard %+v, shut %d", name, r.events, r.s.Shut())
		}
		if operates && (r.Attr.State != qp.Err || !flushed(r.Sent.List, 1, reason.StreamClosed) || !flushed(r.Received.List, 1, reason.StreamClosed)) || !operates && r.Attr.State != qp.Init {
			t.Errorf("%s: in %v, %v, %v", name, r.Attr.State, r.Sent.List, r.Received.List)
		}
		if r.s.Next(0, &r.out) {
			t.Errorf("%s: sends", name)
		}
	}
}

func TestCallsOutOfState(t *testing.T) {
	p := newPair(t, nil)
	a, b := p.n[0], p.n[1]
	state := func(what string, err error, want reason.Reason) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Detail.Reason != want {
			t.Errorf("%s: %v, expected %v", what, err, want)
		}
	}
	state("accept before a request", b.s.Accept(0, b.q, defaults()), reason.MPAState)
	state("reject before a request", b.s.Reject(0, nil), reason.MPAState)
	state("disconnect before all", b.s.Disconnect(0), reason.MPAState)
	state("private data", a.s.Connect(0, a.q, &Params{Private: make([]byte, 509)}), reason.MPAPrivate)
	state("IRD", a.s.Connect(0, a.q, &Params{IRD: 256}), reason.MPADepth)
	state("revision", a.s.Connect(0, a.q, &Params{Revision: 3}), reason.MPARevision)
	a.Attr.State = qp.Reset
	state("RESET", a.s.Connect(0, a.q, defaults()), reason.LocalQPState)
	a.Attr.State = qp.Init
	a.Port.Type = qp.UD
	err := a.s.Connect(0, a.q, defaults())
	state("UD", err, reason.IWARPType)
	if !errors.Is(err, errors.ErrUnsupported) || CheckType(qp.UC) == nil {
		t.Errorf("%v", err)
	}
	a.Port.Type = qp.RC
	p.begin(&Params{RTR: iwarp.RTRSend})
	state("connect twice", a.s.Connect(0, a.q, defaults()), reason.MPAState)
	state("two connections", NewStream(&Pool{}, nil).Connect(0, a.q, defaults()), reason.MPAState)
	state("listen then", a.s.Listen(0, 0), reason.MPAState)
	p.run()
	state("no frame", b.s.Accept(0, b.q, &Params{RTR: iwarp.RTRWrite}), reason.MPAReady)
	state("accept's private data", b.s.Accept(0, b.q, &Params{Private: make([]byte, 509)}), reason.MPAPrivate)
	state("reject's private data", b.s.Reject(0, make([]byte, 509)), reason.MPAPrivate)
	if err := b.s.Accept(0, b.q, &Params{Private: make([]byte, 508)}); err != nil {
		t.Error(err)
	}
	state("accept twice", b.s.Accept(0, b.q, defaults()), reason.MPAState)
	p.run()
	if a.last().Kind != Established || len(a.last().Private) != 508 {
		t.Errorf("heard %+v", a.last())
	}
}
