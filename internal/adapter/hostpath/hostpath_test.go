package hostpath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// An end is one lane of a pair that is connected through memory, on a clock that the
// test moves.
type end struct {
	Lane
	tasks   schedule.Queue
	now     time.Duration
	got     [][]byte
	packets int
	refused []reason.Reason
	broken  bool
	revoked int // calls of Revoked
	lost    int // calls of Lost

	rung      int // bells of this end
	peer      *end
	offers    bool // this end offers its memory
	withdrawn bool // this end has withdrawn it, which messages in the ring do not know
	channel   *hostmem.Channel
}

func (e *end) Message(_ time.Duration, _ *Path, _ *hostmem.Received, payload []byte) {
	e.got = append(e.got, bytes.Clone(payload))
}

func (e *end) Packet(_ time.Duration, _ *Path, _ *hostmem.Received, _, packet []byte) {
	e.packets++
	e.got = append(e.got, bytes.Clone(packet))
}
func (e *end) Lost(time.Duration, *Path, *hostmem.Received) { e.lost++ }
func (e *end) Refused(why reason.Detail)                    { e.refused = append(e.refused, why.Reason) }
func (e *end) Revoked(*Path)                                { e.revoked++ }
func (e *end) Broken(*Path, reason.Detail)                  { e.broken = true }
func (e *end) Ring(int)                                     { e.peer.rung++ }
func (e *end) Offer(*memory.Segment)                        {}
func (e *end) Offered(uint32) bool                          { return e.offers }
func (e *end) Withdraw(uint32)                              {}
func (e *end) Close()                                       {}
func (e *end) Segment(uint32) []byte {
	if e.peer.withdrawn {
		return nil
	}
	return mapped
}

// mapped is memory that both ends have mapped: a segment of the regions of table.
var (
	mapped = make([]byte, 1<<20)
	table  = sharing(mapped)
)

// sharing returns a table with a region over a segment.
func sharing(mem []byte) *memory.Table {
	t := memory.NewTable()
	if _, err := t.RegisterSegment(1, mem, 0, 0, memory.NewSegment(mem, len(mem), -1)); err != nil {
		panic(err)
	}
	return t
}

var place = netip.MustParseAddrPort("10.0.0.1:4791")

// newPair connects two ends.
func newPair(t *testing.T) (a, b *end) {
	a, b = &end{offers: true}, &end{offers: true}
	var out, in [2]*hostmem.Area
	for i := range out {
		mem := make([]byte, hostmem.AreaSize(1, 1))
		out[i] = hostmem.NewArea(mem, 1, 1)
		var err error
		if in[1-i], err = hostmem.OpenArea(mem, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range []*end{a, b} {
		e.peer = []*end{b, a}[i]
		e.Init(0, Config{Port: e, Tasks: &e.tasks, Segments: &table.Segments, Clock: func() time.Duration { return e.now }})
		e.channel = &hostmem.Channel{Peer: place, Out: out[i], In: in[i], Lanes: 1, Far: e}
		e.Add(e.channel, false)
	}
	return a, b
}

func (e *end) send(t *testing.T, n int, stable bool) {
	t.Helper()
	s := e.Find(place, 5).To(5)
	s.Longest(1024)
	s.Post(&Item{Header: []byte("header"), Pieces: [][]byte{mapped[:n]}, Len: n, Stable: stable})
	e.Flush()
}

func TestPayloadsArriveWhichWayTheyTravel(t *testing.T) {
	for i := range mapped {
		mapped[i] = byte(i*5 + i>>9)
	}
	a, b := newPair(t)
	for _, stable := range []bool{false, true} {
		for _, n := range []int{0, 8, 100, 511, 512, 4096, 8191, 8192, 60000} {
			a.send(t, n, stable)
			if !b.Receive(0) || len(b.got) != 1 || !bytes.Equal(b.got[0], mapped[:n]) {
				t.Fatalf("%d bytes, stable %v: found %d messages", n, stable, len(b.got))
			}
			b.got = nil
		}
	}
	a.send(t, referLimit, true)
	if b.Receive(0); len(b.got) != 1 || !bytes.Equal(b.got[0], mapped[:referLimit]) {
		t.Error("the longest train did not arrive")
	}
	if len(a.refused)+len(b.refused) > 0 {
		t.Errorf("refused %v, %v", a.refused, b.refused)
	}
}

func TestFullRingMakesTasksWait(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	var task schedule.Entry
	task.Init((*timer)(&a.Lane))
	sent := 0
	for s.Admit(0, &task) {
		a.send(t, 1000, false)
		sent++
	}
	if a.Receive(0); a.tasks.Ready() != 0 {
		t.Fatal("the task is ready although the ring is full")
	}
	for b.Receive(0) {
	}
	if len(b.got) != sent {
		t.Errorf("sent %d, found %d", sent, len(b.got))
	}
	if a.rung == 0 {
		t.Error("the peer did not ring for room")
	}
	a.Receive(0)
	if e := a.tasks.Pop(); e != &task || !s.Admit(0, &task) {
		t.Error("the task does not go on")
	}
	if len(a.refused) > 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestPeerThatTakesNothingIsStalled(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	var task schedule.Entry
	task.Init((*timer)(&a.Lane))
	for s.Admit(0, &task) {
		a.send(t, 1000, false)
	}
	if at := a.tasks.NextDue(); at != StallTime {
		t.Fatalf("looks at %v, expected %v", at, StallTime)
	}
	a.now = StallTime - 1
	a.Receive(a.now)
	if a.tasks.Ready() != 0 {
		t.Fatal("stalled too early")
	}
	a.now = StallTime
	a.tasks.Expire(a.now)
	if a.tasks.Pop() != &task || !s.Admit(a.now, &task) {
		t.Fatal("the task still waits")
	}
	for len(a.refused) < 3 { // as on a network that leads nowhere
		a.send(t, hostmem.InlineMax, false)
	}
	if !slices.Equal(a.refused, []reason.Reason{reason.HostStalled, reason.HostStalled, reason.HostStalled}) {
		t.Errorf("refused %v", a.refused)
	}
	for b.Receive(0) { // the peer continues
	}
	a.refused, b.got = nil, nil
	if !s.Admit(a.now, &task) {
		t.Fatal("not admitted")
	}
	a.send(t, 1000, false)
	if b.Receive(0); len(b.got) != 1 || len(a.refused) > 0 {
		t.Errorf("found %d messages, refused %v", len(b.got), a.refused)
	}
}

func TestSlowPeerIsNotStalled(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	var task schedule.Entry
	task.Init((*timer)(&a.Lane))
	for ; a.now < 10*StallTime; a.now += StallTime / 2 {
		for s.Admit(a.now, &task) {
			a.send(t, 60000, false)
		}
		a.tasks.Expire(a.now)
		b.take(0, b.polled[0]) // one message
		b.polled[0].show()
	}
	if len(a.refused) > 0 {
		t.Errorf("refused %v", a.refused)
	}
}

func TestRevokedReferencesAreLost(t *testing.T) {
	a, b := newPair(t)
	a.send(t, 9000, true)
	a.send(t, 5000, false)
	a.Revoke()
	a.send(t, 9500, true)
	for b.Receive(0) {
	}
	if len(b.got) != 2 || len(b.got[0]) != 5000 || len(b.got[1]) != 9500 {
		t.Errorf("found %d messages", len(b.got))
	}
	if !slices.Equal(b.refused, []reason.Reason{reason.HostRevoked}) {
		t.Errorf("refused %v", b.refused)
	}
}

// The machine learns of the loss, so that it can answer at once. What is sent later is copied.
func TestReferenceToWithdrawnMemoryIsLostPacket(t *testing.T) {
	a, b := newPair(t)
	a.send(t, 9000, true)
	a.send(t, 10, true)
	a.offers, a.withdrawn = false, true
	if b.Receive(0); len(b.got) != 1 || !slices.Equal(b.refused, []reason.Reason{reason.HostReference}) || b.lost != 1 {
		t.Errorf("found %d messages, %d lost, refused %v", len(b.got), b.lost, b.refused)
	}
	a.send(t, 9000, true)
	if b.Receive(0); len(b.got) != 2 || len(b.got[1]) != 9000 {
		t.Errorf("found %d messages, refused %v", len(b.got), b.refused)
	}
	a.send(t, 60000, false) // of a transport that repeats nothing
	if b.Receive(0); len(b.got) != 3 || len(b.got[2]) != 60000 {
		t.Errorf("found %d messages, refused %v", len(b.got), b.refused)
	}
}

// Trains are longer while the peer has mapped what is sent.
func TestTrainsFitRingUnlessTheyAreReferredTo(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	for _, offers := range []bool{true, false} {
		a.offers = offers
		a.send(t, 9000, true)
		b.Receive(0)
		if n := s.Longest(4096); n*4096 > hostmem.InlineMax != offers || n*4096 > referLimit {
			t.Errorf("memory is offered: %v, trains have %d packets", offers, n)
		}
	}
	if n := s.Longest(4096); n*4096 > hostmem.InlineMax {
		t.Errorf("trains of %d packets do not fit the ring", n)
	}
	if s.Post(&Item{Header: []byte("header"), Pieces: [][]byte{mapped[:referLimit]}, Len: referLimit, Stable: true}) {
		t.Error("a train that has to be taken apart was posted")
	}
}

// While this end copies out of memory that both have mapped, the sender's program takes that
// memory back. A machine that takes the message finds out before it completes anything.
func TestMappedPayloadIsRevokedDuringCopy(t *testing.T) {
	a, b := newPair(t)
	port := &interrupted{end: b, sender: a}
	b.Port = port
	s := a.Find(place, 5).To(5)
	for _, n := range []int{privateLimit, 5000} {
		for _, revoke := range []bool{false, true} {
			s.Refer(&hostmem.Head{}, []byte("header"), hostmem.Ref{Segment: 1}, n)
			port.revoke, port.intact = revoke, nil
			b.Receive(0)
			want := []bool{true}
			if revoke {
				want = append(want, false)
			}
			if n > privateLimit && !slices.Equal(port.intact, want) {
				t.Errorf("%d bytes, revoked %v: intact %v, expected %v", n, revoke, port.intact, want)
			}
			if n == privateLimit && len(port.intact) > 0 {
				t.Errorf("%d bytes are lent, expected a copy", n)
			}
		}
	}
	if s.Referring() || a.broken || b.broken {
		t.Error("the path has ended, or a reference is left")
	}
}

// interrupted is an end whose peer revokes the payload of the message that it handles.
type interrupted struct {
	*end
	sender *end
	revoke bool
	intact []bool
}

func (i *interrupted) Message(_ time.Duration, _ *Path, m *hostmem.Received, _ []byte) {
	if m.Lent == nil {
		return
	}
	i.intact = append(i.intact, m.Lent.Intact())
	if i.revoke {
		i.sender.now = 0
		i.sender.Clock = func() time.Duration { i.sender.now += time.Millisecond; return i.sender.now }
		i.sender.Revoke()
		i.intact = append(i.intact, m.Lent.Intact())
	}
}

// A payload that is short enough to be copied first is revoked during that copy.
func TestShortMappedPayloadIsRevokedDuringCopy(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	a.Clock = func() time.Duration { a.now += time.Millisecond; return a.now }
	b.channel.Far = revokingEnd{b, a}
	s.Refer(&hostmem.Head{}, []byte("header"), hostmem.Ref{Segment: 1}, privateLimit)
	if b.Receive(0); len(b.got) != 0 || !slices.Equal(b.refused, []reason.Reason{reason.HostRevoked}) {
		t.Errorf("found %d messages, refused %v", len(b.got), b.refused)
	}
}

// revokingEnd is an end whose peer revokes a payload when this end begins to copy it.
type revokingEnd struct {
	*end
	sender *end
}

func (r revokingEnd) Segment(uint32) []byte {
	r.sender.Revoke()
	return mapped
}

func TestBrokenRingEndsItsPath(t *testing.T) {
	a, b := newPair(t)
	mem := make([]byte, hostmem.AreaSize(1, 1))
	for i := range mem {
		mem[i] = byte(i*31 + i>>7)
	}
	good, err := hostmem.OpenArea(func() []byte {
		m := make([]byte, len(mem))
		hostmem.NewArea(m, 1, 1)
		copy(m[4096:], mem[4096:])
		return m
	}(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	peer := netip.MustParseAddrPort("10.0.0.2:4791")
	b.Add(&hostmem.Channel{Peer: peer, Out: b.channel.Out, In: good, Lanes: 1, Far: b}, false)
	b.Receive(0)
	if !b.broken || b.Find(peer, 5) != nil {
		t.Error("the path is still in use")
	}
	a.send(t, 10, false)
	if b.Receive(0); len(b.got) != 1 {
		t.Error("the other path suffers")
	}
}

func TestRemovedPathIsNotFound(t *testing.T) {
	a, _ := newPair(t)
	var task schedule.Entry
	task.Init((*timer)(&a.Lane))
	s := a.Find(place, 5).To(1)
	for s.Admit(0, &task) {
		a.send(t, 60000, false)
	}
	a.Remove(a.channel)
	if a.Find(place, 5) != nil || !a.Idle() {
		t.Error("the path is still there")
	}
	if a.tasks.Pop() != &task {
		t.Error("a task waits for a path that is gone")
	}
	if a.stallAt() != schedule.Never {
		t.Error("the lane still looks for stalls")
	}
}

func TestPostingAndReceivingAllocateNothing(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	i := &Item{Header: []byte("header"), Pieces: [][]byte{mapped[:8]}, Len: 8}
	b.Port = sink{b}
	if n := testing.AllocsPerRun(1000, func() {
		s.Post(i)
		a.Flush()
		b.Receive(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type sink struct{ *end }

func (sink) Message(time.Duration, *Path, *hostmem.Received, []byte) {}

func BenchmarkPostAndReceive(b *testing.B) {
	x, y := newPair(&testing.T{})
	y.Port = sink{y}
	s := x.Find(place, 5).To(5)
	i := &Item{Header: make([]byte, 28), Pieces: [][]byte{mapped[:8]}, Len: 8}
	for b.Loop() {
		s.Post(i)
		x.Flush()
		y.Receive(0)
	}
}

// What a machine looks at is a copy, whichever way it came: the peer may change its own
// memory at any time.
func TestShortPayloadsAndPacketsArePrivate(t *testing.T) {
	a, b := newPair(t)
	shared := func(p []byte) bool {
		at := memory.Addr(p) - memory.Addr(mapped)
		return len(p) > 0 && at < uint64(len(mapped))
	}
	port := &privacy{end: b}
	b.Port = port
	s := a.Find(place, 5).To(5)
	for _, c := range []struct {
		kind    hostmem.Kind
		n       int
		private bool
	}{{hostmem.Message, 256, true}, {hostmem.Message, privateLimit, true}, {hostmem.Message, 5000, false}, {hostmem.Packet, 9000, true}} {
		s.Refer(&hostmem.Head{Kind: c.kind}, []byte("header"), hostmem.Ref{Segment: 1}, c.n)
		if b.Receive(0); len(port.last) != c.n || shared(port.last) == c.private {
			t.Errorf("kind %d, %d bytes: found %d, shared %v", c.kind, c.n, len(port.last), shared(port.last))
		}
	}
}

type privacy struct {
	*end
	last []byte
}

func (p *privacy) Message(_ time.Duration, _ *Path, _ *hostmem.Received, b []byte)   { p.last = b }
func (p *privacy) Packet(_ time.Duration, _ *Path, _ *hostmem.Received, _, b []byte) { p.last = b }

func TestLastMessagesOfPeerAreReceived(t *testing.T) {
	a, b := newPair(t)
	for range 3 {
		a.send(t, 10, false)
	}
	if b.Remove(b.channel); len(b.got) != 3 {
		t.Errorf("found %d messages, expected 3", len(b.got))
	}
}

// A replier is a task that sends one short message.
type replier struct {
	from *end
	t    *testing.T
	sent int
}

func (r *replier) Next(time.Duration) (int, bool) {
	r.from.send(r.t, 8, true)
	r.sent++
	return 1, false
}
func (r *replier) Deadline() time.Duration { return schedule.Never }
func (r *replier) Expire(time.Duration)    {}

func TestLongPayloadIsCopiedAfterReadyTasksHaveSent(t *testing.T) {
	a, b := newPair(t)
	reply := &replier{from: b, t: t}
	var task schedule.Entry
	task.Init(reply)
	for range 2 {
		sent := reply.sent
		b.tasks.Push(&task)
		a.send(t, 100, true)
		a.send(t, longCopy, true)
		for range 3 {
			if b.Receive(0); len(b.got) != 1 || len(b.got[0]) != 100 {
				t.Fatalf("expected the short message alone before the lane has sent, found %d messages", len(b.got))
			}
		}
		if e := b.tasks.Pop(); e == nil {
			t.Fatal("no task is ready")
		} else if e.Task().Next(0); reply.sent != sent+1 {
			t.Fatal("the task has not sent")
		}
		b.tasks.Push(&task) // what becomes ready later does not postpone it again
		if b.Receive(0); len(b.got) != 2 || len(b.got[1]) != longCopy {
			t.Fatalf("expected the long message when the lane has sent, found %d messages", len(b.got))
		}
		b.tasks.Pop()
		b.got = nil
	}
	a.send(t, longCopy, true)
	if b.Receive(0); len(b.got) != 1 {
		t.Error("the long message waits although no task is ready")
	}
}

func TestLongMessagesOfPeerThatEndsAreReceived(t *testing.T) {
	a, b := newPair(t)
	var task schedule.Entry
	task.Init(&replier{from: b, t: t})
	b.tasks.Push(&task)
	a.send(t, longCopy, true)
	if b.Remove(b.channel); len(b.got) != 1 {
		t.Errorf("expected 1 message, found %d", len(b.got))
	}
}
