package adapter

import (
	"io"
	"syscall"
	"testing"

	"softrdma/internal/iwarp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	wire "softrdma/internal/wire/iwarp"
)

// sealed adds padding and CRC to an FPDU.
func sealed(b []byte) []byte {
	b = append(b, make([]byte, wire.PadLen(len(b)-wire.LengthLen)+wire.CRCLen)...)
	end := len(b) - wire.CRCLen
	wire.PutCRC(b[end:], wire.UpdateCRC(0, b[:end]))
	return b
}

// terminate is a Terminate for a WRITE to an STag.
func terminate(stag uint32, to uint64) []byte {
	write := make([]byte, wire.UntaggedLen)
	s := wire.Segment{Length: wire.TaggedLen - wire.LengthLen + 8, Tagged: true, Last: true, Opcode: wire.Write, STag: stag, TO: to}
	s.Put(write)
	b := make([]byte, wire.MaxTerminate)
	n := wire.UntaggedLen + wire.PutTermination(b[wire.UntaggedLen:], wire.TermTaggedSTag, write[:wire.TaggedLen])
	s = wire.Segment{Length: uint16(n - wire.LengthLen), Last: true, Opcode: wire.Terminate, Queue: wire.QueueTerminate, MSN: 1}
	s.Put(b)
	return sealed(b[:n])
}

// A peer may reset the connection directly after its Terminate, as Linux's siw does. An end that
// writes before it reads must still receive the Terminate.
func TestTerminateBeforeResetIsReceived(t *testing.T) {
	for name, end := range map[string]error{"reset": syscall.ECONNRESET, "end": io.EOF, "silence": nil} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			e.establish()
			s := e.stream()
			s.in, s.readErr, s.writeErr = terminate(0x77, 0x1000), end, syscall.EPIPE
			e.post(2, queue.Write)
			e.dev.Progress()
			if len(e.events) != 1 || e.events[0].Kind != iwarp.Closed || e.events[0].Detail.Reason != reason.TermProtection {
				t.Fatalf("heard %+v", e.events)
			}
			list := e.completions()
			if len(list) != 2 || list[0].Status != queue.RemAccessErr || list[1].Status != queue.WRFlushErr {
				t.Errorf("completions %+v", list)
			}
			e.gone()
		})
	}
}

// A failed write ends the stream. Data that arrived before is still read.
func TestFailedWriteEndsTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		err  error
		want int // completions of receives
	}{
		"nothing came":         {},
		"end":                  {err: io.EOF},
		"a message":            {in: message(1), want: 1},
		"a message, an end":    {in: message(1), err: io.EOF, want: 1},
		"a message and a part": {in: append(message(1), message(2)[:9]...), err: syscall.ECONNRESET, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			e.establish()
			for range 2 {
				e.recv()
			}
			s := e.stream()
			s.in, s.readErr, s.writeErr = c.in, c.err, syscall.ECONNRESET
			e.post(1, queue.Write)
			e.dev.Progress()
			if len(e.events) != 1 || e.events[0].Kind != iwarp.Closed || e.events[0].Detail.Reason != reason.StreamLost {
				t.Fatalf("heard %+v", e.events)
			}
			good, lost := 0, 0
			for _, c := range e.completions() {
				switch {
				case c.Op == queue.WCRecv && c.Status == queue.Success:
					good++
				case c.Status == queue.RetryExcErr:
					lost++
				}
			}
			if good != c.want || lost != 1 {
				t.Errorf("%d messages received, expected %d; %d requests lost, expected 1", good, c.want, lost)
			}
			e.gone()
		})
	}
}

// A peer that no longer answers is told from one that reset the connection.
func TestStreamThatTimesOutIsNoReset(t *testing.T) {
	for err, want := range map[error]reason.Reason{
		syscall.ETIMEDOUT: reason.StreamTimeout, syscall.EHOSTUNREACH: reason.StreamTimeout, syscall.ENETUNREACH: reason.StreamTimeout,
		syscall.ECONNRESET: reason.StreamLost,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			e := newStreamEnd(t)
			e.establish()
			e.breaks(err)
			if len(e.events) != 1 || e.events[0].Kind != iwarp.Closed || e.events[0].Detail.Reason != want {
				t.Errorf("heard %+v", e.events)
			}
			e.gone()
		})
	}
}

// If the peer has shut one direction, the connection continues in the other until this end has sent
// its data.
func TestHalfClosedStreamIsReadToItsEnd(t *testing.T) {
	e := newStreamEnd(t)
	e.establish()
	for range 2 {
		e.recv()
	}
	e.stream().in = append(message(1), message(2)...)
	e.breaks(io.EOF)
	if len(e.events) != 1 || e.events[0].Detail.Reason != reason.StreamClosed {
		t.Fatalf("heard %+v", e.events)
	}
	list := e.completions()
	if len(list) != 2 || list[0].Status != queue.Success || list[1].Status != queue.Success {
		t.Errorf("completions %+v", list)
	}
	e.gone()
}

// message is a SEND of 8 bytes.
func message(msn uint32) []byte {
	b := make([]byte, wire.UntaggedLen)
	s := wire.Segment{Length: wire.UntaggedLen - wire.LengthLen + 8, Last: true, Opcode: wire.Send, MSN: msn}
	s.Put(b)
	return sealed(append(b, make([]byte, 8)...))
}

// recv posts a receive of 64 bytes.
func (e *streamEnd) recv() {
	r := e.qp.Recv
	i := r.Producer()
	*r.At(i) = queue.RecvWQE{NumSGE: 1}
	r.SGERoom(i)[0].Addr, r.SGERoom(i)[0].Length, r.SGERoom(i)[0].LKey = e.mr.Base, 64, e.mr.Key
	r.Publish(r.Next(i))
}
