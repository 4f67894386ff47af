package rsocket

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"softrdma/internal/reason"
)

// An end is a simulated side: its memory and the packets in flight to it.
type end struct {
	tx     Sender
	rx     *Receiver
	remote Remote
	mem    [3][]byte // by area: the buffer, and what replaced pieces of it
	half   int
	table  [TargetEntries * SGELen]byte
	in     []packet
	peer   *end

	written, read int // bytes of the stream
}

// A packet is a WRITE with immediate data.
type packet struct {
	m    Message
	data []byte
	addr uint64
}

// The addresses of an end's memory.
const (
	bufAddr   = 0x10000
	tableAddr = 0x90000
	areaAddr  = 0x100000
)

func newEnds(half int, credits uint16, flags uint8) (a, b *end) {
	a, b = newEnd(half, credits), newEnd(half, credits)
	a.peer, b.peer = b, a
	for _, e := range []*end{a, b} {
		d := ConnData{Flags: flags, Credits: credits, Target: SGE{tableAddr, 1, TargetEntries}, Data: SGE{bufAddr, 2, uint32(half)}}
		e.peer.tx.Start(&d)
		e.peer.remote.Start(&d)
	}
	return a, b
}

func newEnd(half int, credits uint16) *end {
	return &end{rx: NewReceiver(half, credits), mem: [3][]byte{make([]byte, 2*half)}, half: half}
}

// stream returns byte i of every stream.
func stream(i int) byte { return byte(i*7 + i>>8) }

// send sends up to n bytes and reports whether it could.
func (e *end) send(n int) bool {
	if n = min(n, e.tx.Room()); n == 0 {
		return false
	}
	p := make([]byte, n)
	for i := range p {
		p[i] = stream(e.written + i)
	}
	addr, key := e.tx.Take(n)
	if key != 2 {
		panic("data goes to memory that is not the buffer")
	}
	e.peer.in = append(e.peer.in, packet{NewMessage(OpData, uint32(n)), p, addr})
	e.written += n
	return true
}

// tell sends the update that is due and reports whether there was one.
func (e *end) tell() (did bool) {
	for e.rx.Due() {
		if p, any := e.rx.Spare(); any { // whose end the peer may have skipped
			if p.Len = e.half; p.Area > 0 {
				p.Len = len(e.mem[p.Area])
			}
			e.rx.Replace(p)
		}
		u := e.rx.Update()
		p := packet{m: u.Message}
		if u.Len > 0 {
			p.data = make([]byte, SGELen)
			p.addr, _ = e.remote.PutTarget(p.data, SGE{areaAddr*uint64(u.Area) + bufAddr + uint64(u.Off), 2, uint32(u.Len)})
		}
		e.peer.in = append(e.peer.in, p)
		did = true
	}
	return did
}

// receive takes the oldest packet and reports whether there was one.
func (e *end) receive(t *testing.T) bool {
	if len(e.in) == 0 {
		return false
	}
	p := e.in[0]
	e.in = e.in[1:]
	var err error
	switch {
	case p.m.Op() == OpData:
		if copy(e.mem[p.addr/areaAddr][p.addr%areaAddr-bufAddr:], p.data) != len(p.data) {
			t.Fatalf("%d bytes at %#x do not lie in the buffer", len(p.data), p.addr)
		}
		err = e.rx.Arrived(p.m.Data())
	case p.m == NewMessage(OpControl, ControlSkip):
		err = e.rx.Skip()
	case p.m.Op() == OpCredits:
		e.tx.Grant(p.m.Data())
		if len(p.data) > 0 {
			copy(e.table[p.addr-tableAddr:], p.data)
			err = e.tx.Tell(ParseTarget(e.table[e.tx.NextTarget()*SGELen:]))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// take reads up to n bytes and reports whether there were any.
func (e *end) take(t *testing.T, n int) bool {
	p := e.rx.Next()
	k := min(n, p.Len)
	for i, b := range e.mem[p.Area][p.Off : p.Off+k] {
		if b != stream(e.read+i) {
			t.Fatalf("byte %d of the stream is %#x, expected %#x", e.read+i, b, stream(e.read+i))
		}
	}
	e.rx.Consume(k)
	e.read += k
	return k > 0
}

// replace replaces the piece that is granted next by one of another length, or by a half of the
// buffer.
func (e *end) replace(n int) {
	p, any := e.rx.Spare()
	if !any || n == 0 && p.Area == 0 {
		return
	}
	next := Piece{Len: e.half}
	switch {
	case n > 0:
		if next = (Piece{p.Area, 0, n}); p.Area == 0 {
			if next.Area = 1; e.rx.Uses(1, 0) {
				next.Area = 2
			}
		}
		e.mem[next.Area] = make([]byte, n)
	case e.rx.Uses(0, 0):
		next.Off = e.half
	}
	e.rx.Replace(next)
}

// Both ends act in random order. The streams must arrive unchanged and must never
// block forever.
func TestStreamAnyOrder(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		half := 1 + r.IntN(300)
		credits := uint16(1 + r.IntN(20))
		total := 2000 + r.IntN(70000) // some rounds wrap the credit counter
		size := 1 + r.IntN(2*half)
		a, b := newEnds(half, credits, 0)
		for step := 0; a.read < total || b.read < total; step++ {
			e := a
			if r.IntN(2) == 0 {
				e = b
			}
			switch r.IntN(6) {
			case 5:
				if r.IntN(8) == 0 && e.tx.Skip(uint32(r.IntN(half))) {
					e.peer.in = append(e.peer.in, packet{m: NewMessage(OpControl, ControlSkip)})
				}
			case 4:
				if r.IntN(8) == 0 {
					e.replace(r.IntN(3 * half))
				}
			case 0:
				if left := total - e.written; left > 0 {
					e.send(min(left, 1+r.IntN(size)))
				}
			case 1:
				e.receive(t)
			case 2:
				e.take(t, 1+r.IntN(size))
			case 3:
				e.tell()
			}
			if step > 200*(total+1000) {
				t.Fatalf("seed %d: stuck: %d and %d of %d bytes came", seed, a.read, b.read, total)
			}
		}
	}
}

// Where the peer may write nothing, there is nothing to skip. A sender always keeps a target to write to, and those of the initial length.
func TestSkip(t *testing.T) {
	a, b := newEnds(100, 10, 0)
	b.replace(200)
	if a.tx.Skip(99) {
		t.Error("the only target is skipped")
	}
	b.tell()
	for a.receive(t) {
	}
	if a.tx.Skip(100) {
		t.Error("a target of the initial length is skipped")
	}
	a.send(100)
	if a.tx.Skip(100) {
		t.Error("the only target that is left is skipped")
	}
	a.send(10)
	for b.receive(t) {
	}
	b.take(t, 100)
	b.tell()
	for a.receive(t) {
	}
	if !a.tx.Skip(100) || a.tx.Room() != 100 {
		t.Errorf("a longer target is not skipped, or there is room for %d bytes", a.tx.Room())
	}
	for range 2 {
		if err := b.rx.Skip(); err != nil {
			t.Error(err)
		}
	}
	if err := b.rx.Skip(); err == nil {
		t.Error("what is not there was skipped")
	}
}

// A sender may fill both halves if it has credit for that, and no more.
func TestSenderStopsWhereThePeerHasNoRoomOrCredit(t *testing.T) {
	for _, c := range []struct {
		half    int
		credits uint16
		n       int // bytes of a message
		want    int // total bytes
	}{
		{100, 50, 100, 200},
		{100, 50, 30, 200},
		{100, 3, 30, 90},
		{100, 1, 100, 100},
	} {
		a, b := newEnds(c.half, c.credits, FlagBigEndian&0)
		b.tell()
		for a.receive(t) {
		}
		for a.send(c.n) {
		}
		if a.written != c.want {
			t.Errorf("%+v: found %d", c, a.written)
		}
		for b.receive(t) {
		}
		for b.take(t, 1000) {
		}
		b.tell()
		for a.receive(t) {
		}
		if !a.send(1) {
			t.Errorf("%+v: stuck although all was read", c)
		}
	}
}

// The credit counter has 16 bits and wraps.
func TestCreditLimitWraps(t *testing.T) {
	a, b := newEnds(64, 16, 0)
	for a.written < 200_000 {
		for a.send(1) {
		}
		for b.receive(t) {
		}
		for b.take(t, 1000) {
		}
		if !b.tell() && a.written < 200_000 {
			t.Fatalf("stuck after %d messages", a.written)
		}
		for a.receive(t) {
		}
	}
}

func TestReceiverRefusesProtocolViolations(t *testing.T) {
	check := func(name string, err error, want reason.Reason) {
		t.Helper()
		var f *Fault
		if !errors.As(err, &f) || f.Detail.Reason != want {
			t.Errorf("%s: expected %v, found %v", name, want, err)
		}
	}
	r := NewReceiver(100, 2)
	check("more than the first half", r.Arrived(101), reason.SocketOverrun)
	r.Update()
	check("more than both halves", r.Arrived(201), reason.SocketOverrun)
	check("a length of 29 bits", r.Arrived(MaxData), reason.SocketOverrun)
	if err := errors.Join(r.Arrived(100), r.Arrived(50)); err != nil {
		t.Fatal(err)
	}
	check("a third message", r.Arrived(1), reason.SocketNoCredit)
	r.Consume(100)
	r.Update()
	if err := r.Arrived(100); err != nil {
		t.Errorf("after one was read: %v", err)
	}

	var s Sender
	s.Start(&ConnData{Credits: 5, Data: SGE{0, 0, 10}})
	if err := s.Tell(SGE{1, 1, 10}); err != nil {
		t.Fatal(err)
	}
	check("a buffer that was not filled", s.Tell(SGE{1, 1, 10}), reason.SocketTarget)
	s.Take(10)
	check("a buffer of nothing", s.Tell(SGE{1, 1, 0}), reason.SocketTarget)
}

// An empty message uses a credit, returns it at once, and does not end the stream.
func TestReceiverOnlyCountsEmptyMessages(t *testing.T) {
	r := NewReceiver(100, 4)
	r.Update()
	for range 100 {
		if err := r.Counted(); err != nil {
			t.Fatal(err)
		}
		if r.Unread() != 0 {
			t.Fatalf("%d bytes to read", r.Unread())
		}
		if r.Due() {
			r.Update()
		}
	}
}

// No sequence of packets from a peer can break the state.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{0, 10, 1, 5, 2, 3, 0, 200, 2, 100})
	f.Fuzz(func(t *testing.T, script []byte) {
		r, s := NewReceiver(64, 4), Sender{}
		s.Start(&ConnData{Credits: 3, Data: SGE{0, 0, 64}})
		buf := make([]byte, 128)
		for len(script) >= 2 {
			op, n := script[0], int(script[1])
			script = script[2:]
			switch op % 6 {
			case 0:
				if r.Arrived(uint32(n)) != nil {
					return
				}
			case 1:
				p := r.Next()
				bytes.Count(buf[p.Off:p.Off+p.Len], []byte{0}) // access the bytes, which must be in the buffer
				r.Consume(min(n, p.Len))
			case 2:
				if r.Due() {
					r.Update()
				}
			case 3:
				s.Grant(uint32(n))
			case 4:
				if s.Tell(SGE{0, 0, uint32(n)}) != nil {
					return
				}
			case 5:
				if k := min(n, s.Room()); k > 0 {
					s.Take(k)
				}
			}
			if r.Unread() < 0 || r.Unread() > 128 {
				t.Fatalf("%d bytes unread of 128", r.Unread())
			}
		}
	})
}
