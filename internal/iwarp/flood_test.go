package iwarp

import (
	"testing"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// A program in another process that continuously posts receives to a queue pair in the error state
// must not occupy the lane forever.
func TestFlushEndsWhileReceivesArePosted(t *testing.T) {
	rq := &machinetest.Runaway{N: 20}
	r := newRaw(t, defaults(), func(p *machinetest.Port) { p.RQ = rq })
	r.Attr.State = qp.Err
	r.q.Transition(0, qp.RTS)
	if n := len(r.Received.List); n != 20 || r.Received.List[19].Status != queue.WRFlushErr {
		t.Errorf("%d completions, expected 20 flushed ones", n)
	}
	r.q.Settle(0)
	if n := len(r.Received.List); n != 40 {
		t.Errorf("%d completions, expected those of the later requests", n-20)
	}
	r.Attr.State = qp.Reset
	r.q.Transition(0, qp.Err)
	if rq.Taken != 60 {
		t.Errorf("took %d, expected 20 more", rq.Taken-40)
	}
}

// Data from a peer must not make this end allocate memory: not in full operation, not after an
// error, and not while the connection ends.
func TestFloodTakesNoMemory(t *testing.T) {
	write := iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write}
	for name, c := range map[string]struct {
		before func(r *raw)
		flood  func(r *raw) []byte
	}{
		"WRITEs of no bytes": {func(*raw) {}, func(r *raw) []byte { return r.fpdu(write, nil) }},
		"empty FPDUs":        {func(*raw) {}, func(*raw) []byte { return seal([]byte{0, 0}) }},
		"after a fault": {
			func(r *raw) { r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 5}, nil)) },
			func(r *raw) []byte {
				return r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 6}, make([]byte, 100))
			},
		},
		"after the end": {
			func(r *raw) { _ = r.s.Disconnect(0) },
			func(r *raw) []byte { return r.fpdu(write, nil) },
		},
		"READs beyond those agreed on": {
			func(r *raw) {
				for i := range 5 {
					r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: 1, MSN: uint32(i + 1)}, read(iwarp.Read{})))
				}
			},
			func(r *raw) []byte {
				return r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: 1, MSN: 6}, read(iwarp.Read{}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRaw(t, defaults(), nil)
			c.before(r)
			b := c.flood(r)
			refused, out := len(r.Refused), len(r.s.out)
			if n := testing.AllocsPerRun(1000, func() {
				room := r.s.Room(0, r.scratch[:])
				r.s.Filled(0, copy(room[len(room)-1], b))
			}); n != 0 {
				t.Errorf("%v allocations for each read", n)
			}
			if len(r.Refused) != refused || len(r.s.out) != out {
				t.Errorf("%d refusals and %d bytes to send more", len(r.Refused)-refused, len(r.s.out)-out)
			}
		})
	}
}

// An incomplete request takes no more memory than the longest request.
func TestSlowRequestIsBounded(t *testing.T) {
	r := newSetup(t, nil)
	b := frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced, Revision: 2}, &iwarp.Enhanced{}, make([]byte, iwarp.MaxPrivate-iwarp.EnhancedLen))
	r.maxPiece = 1
	r.receive(b[:len(b)-1])
	if n := r.s.setup.Buffered(); len(r.events) != 0 || n != len(b)-1 {
		t.Errorf("heard %+v, %d bytes kept", r.events, n)
	}
	r.receive(b[len(b)-1:])
	if r.last().Kind != Requested || r.s.setup.Buffered() != 0 {
		t.Errorf("heard %+v, %d bytes kept", r.events, r.s.setup.Buffered())
	}
}
