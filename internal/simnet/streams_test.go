package simnet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// The layout of each end's memory.
const (
	streamSource = 0        // source of SENDs and WRITEs; never changes
	streamTarget = 64 << 10 // written to and read by the peer
	streamSinks  = 128 << 10
	streamMemory = 512 << 10
	longestSend  = 6000
	longestWrite = 30000
)

// A streamWorld is two iWARP devices, connections between them, and the model of the expected
// results.
type streamWorld struct {
	rng      *rand.Rand
	net      *simnet.Network
	links    [2]*simnet.StreamLink
	devs     [2]*adapter.Device
	pds      [2]*adapter.PD
	ends     []*streamEnd // two of each connection, the initiator's first
	longest  int          // message
	requests []*adapter.StreamEvent
	exits    func() bool // reports whether a program has ended; nil if none does
	err      error
}

// A streamEnd is one end of a connection.
type streamEnd struct {
	w           *streamWorld
	cq, recvCQ  *adapter.CQ
	qp          *adapter.QP
	mem         []byte
	region      *memory.Region
	stream      *adapter.Stream
	peer        *streamEnd
	established bool
	ended       bool
	posted      bool

	plan []rig.Send
	want []func() bool // checks for each request, if it succeeds
	done int           // completed requests
	bad  bool          // a request has failed

	receives int      // receives to post in total
	ready    int      // receives posted so far
	late     bool     // each is posted when the previous one has completed
	messages [][]byte // expected, in order
	received int
	flushed  bool
}

func (w *streamWorld) failf(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %s", w.net.Clock(), fmt.Sprintf(format, a...))
	}
}

func newStreamWorld(seed uint64, cut, tcp bool, hold time.Duration) (*streamWorld, error) {
	w := &streamWorld{rng: rand.New(rand.NewPCG(seed, 5)), net: simnet.New(seed)}
	pick := func(list ...int) int { return list[w.rng.IntN(len(list))] }
	// Each piece is an event, so pieces of a few bytes go with short messages.
	w.longest = pick(300, 3000, longestWrite)
	part := max(w.longest/100, 1)
	for i := range w.links {
		c := simnet.StreamConfig{
			Delay: time.Duration(w.rng.IntN(1000)) * time.Microsecond, Jitter: time.Duration(pick(0, 1, 100, 5000)) * time.Microsecond,
			Hold:    hold + time.Duration(pick(0, 0, 1, 500))*time.Microsecond,
			Segment: pick(0, part, 7*part, 1448, 9000), Window: pick(0, 10*part, 200*part, 20000, 200000), Read: pick(0, 0, part, 20*part),
		}
		if cut {
			c.Cut = 1 / float64(pick(3, 30, 300))
		}
		address := netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)})
		if tcp {
			f := simnet.Faults{Delay: time.Duration(w.rng.IntN(1000)) * time.Microsecond, Bandwidth: int64(pick(1e8, 1e9)), Queue: pick(20000, 1<<20),
				Loss: float64(pick(0, 1, 10)) / 100, Duplicate: float64(pick(0, 5)) / 100}
			c.Segment, c.Jitter = 0, 0
			w.links[i] = w.net.AttachTCP(address, simnet.LinkConfig{Egress: f}, c, simnet.TCPConfig{MSS: pick(500, 1448, 9000)})
		} else {
			w.links[i] = w.net.AttachStreams(address, c)
		}
		w.devs[i] = adapter.Open(adapter.Config{
			Streams: w.links[i], Clock: w.net.Clock, Manual: true, Random: w.net.Random(uint64(7 + i)).Uint32,
			NoCRC: w.rng.IntN(4) == 0, Markers: w.rng.IntN(4) == 0,
		})
		w.net.Drive(w.devs[i])
		var err error
		if w.pds[i], err = w.devs[i].AllocPD(); err != nil {
			return nil, err
		}
	}
	for range 1 + w.rng.IntN(3) {
		a, err := w.newEnd(0)
		if err != nil {
			return nil, err
		}
		b, err := w.newEnd(1)
		if err != nil {
			return nil, err
		}
		a.peer, b.peer = b, a
		a.makePlan()
		b.makePlan()
		w.ends = append(w.ends, a, b)
	}
	return w, nil
}

func (w *streamWorld) newEnd(i int) (*streamEnd, error) {
	e := &streamEnd{w: w, mem: make([]byte, streamMemory)}
	for k := range e.mem {
		e.mem[k] = byte(w.rng.Uint32())
	}
	var err error
	if e.cq, err = w.devs[i].CreateCQ(64, nil); err != nil {
		return nil, err
	}
	if e.recvCQ, err = w.devs[i].CreateCQ(64, nil); err != nil {
		return nil, err
	}
	if e.region, err = w.pds[i].Register(e.mem, 0x10000, rig.AllAccess|qp.LocalWrite); err != nil {
		return nil, err
	}
	e.qp, err = w.pds[i].CreateQP(&adapter.QPConfig{
		Type: qp.RC, SendCQ: e.cq, RecvCQ: e.recvCQ, SendDepth: 32, SendSGE: 2, RecvDepth: 32, RecvSGE: 2, SignalAll: true,
	})
	if err != nil {
		return nil, err
	}
	return e, e.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1, Access: rig.AllAccess})
}

func (e *streamEnd) sge(off, n int) memory.SGE {
	return memory.SGE{Addr: e.region.Base + uint64(off), Length: uint32(n), LKey: e.region.Key}
}

// makePlan draws the requests of an end, and models their results.
func (e *streamEnd) makePlan() {
	rng, p := e.w.rng, e.peer
	target := bytes.Clone(p.mem[streamTarget : streamTarget+longestWrite])
	sink := streamSinks + 20*longestSend
	for range 3 + rng.IntN(12) {
		n := rng.IntN(e.w.longest)
		s := rig.Send{ID: uint64(len(e.plan)), Addr: p.region.Base + streamTarget, RKey: p.region.Key}
		right := func() bool { return true }
		switch rng.IntN(3) {
		case 0:
			n %= longestSend
			s.Op, s.SGEs = queue.Send, []memory.SGE{e.sge(streamSource+rng.IntN(1000), n)}
			from := int(s.SGEs[0].Addr - e.region.Base)
			p.messages = append(p.messages, bytes.Clone(e.mem[from:from+n]))
			p.receives++
		case 1:
			// RFC 5040 5.5: a WRITE may overtake the answer to a READ.
			s.Flags = queue.Fence
			s.Op, s.SGEs = queue.Write, []memory.SGE{e.sge(streamSource+rng.IntN(1000), n)}
			from := int(s.SGEs[0].Addr - e.region.Base)
			copy(target, e.mem[from:from+n])
		case 2:
			if sink+n > streamMemory {
				continue
			}
			s.Op, s.SGEs = queue.Read, []memory.SGE{e.sge(sink, n)}
			at, want := sink, bytes.Clone(target[:n])
			right = func() bool { return bytes.Equal(e.mem[at:at+n], want) }
			sink += n
		}
		e.plan, e.want = append(e.plan, s), append(e.want, right)
	}
}

// handle records an event of a stream.
func (w *streamWorld) handle(v *adapter.StreamEvent) {
	e, _ := v.On.Context.(*streamEnd)
	switch v.Kind {
	case iwarp.Requested:
		k := *v
		w.requests = append(w.requests, &k)
	case iwarp.Established:
		if e.established {
			w.failf("established twice")
		}
		e.established = true
	default:
		if e != nil {
			if e.ended {
				w.failf("ended twice")
			}
			e.ended = true
		}
	}
}

// run connects the ends, runs them, and returns the first error.
func (w *streamWorld) run(cut bool) error {
	params := iwarp.Params{IRD: 4, ORD: 4, ClientServer: w.rng.IntN(2) == 0}
	l, err := w.devs[1].ListenStream(7, 16, w.handle)
	if err != nil {
		return err
	}
	for i, e := range w.ends {
		e.late = w.rng.IntN(3) == 0
		e.receive()
		if i%2 == 0 {
			e.stream, err = w.devs[0].Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: e.qp.QPN, Params: params, Context: e}, w.handle)
			if err != nil {
				return err
			}
		}
	}
	err = w.net.Run(func() bool {
		for _, v := range w.requests {
			w.accept(v, &params, cut)
		}
		w.requests = nil
		all := true
		for _, e := range w.ends {
			all = e.play() && all
		}
		return all || w.err != nil || w.exits != nil && w.exits()
	}, timeLimit)
	for i := 0; w.exits != nil && i < 1000; i++ { // let sent data arrive
		w.net.Sleep(time.Millisecond)
		for _, e := range w.ends {
			e.play()
		}
	}
	if err != nil && w.err == nil {
		return err
	}
	for _, e := range w.ends {
		if e.stream != nil {
			e.stream.Release()
		}
		if cut {
			continue
		}
		if !e.established || e.bad || e.received != len(e.messages) {
			w.failf("established %v, failed %v, received %d of %d", e.established, e.bad, e.received, len(e.messages))
		}
	}
	l.Close()
	return w.close()
}

// accept answers a request with the planned end of the requester.
func (w *streamWorld) accept(v *adapter.StreamEvent, params *iwarp.Params, cut bool) {
	for _, e := range w.ends {
		if a := e.peer; a.stream != nil && a.stream.Local() == v.On.Remote() {
			if e.stream != nil { // the requester was accepted before, and its stream has broken
				break
			}
			e.stream, v.On.Context = v.On, e
			if v.On.Accept(e.qp.QPN, params) != nil { // it has ended since
				e.ended = true
			}
			return
		}
	}
	// A requester whose stream broke before the reply asks again.
	if v.On.Release(); !cut {
		w.failf("a request of nobody's from %v", v.On.Remote())
	}
}

// receive posts receives, at once or late so that messages wait for them.
func (e *streamEnd) receive() {
	for ; e.ready < e.receives && (!e.late || e.ready == e.received); e.ready++ {
		if err := rig.PostRecv(e.qp.Recv, uint64(e.ready), e.sge(streamSinks+e.ready*longestSend, longestSend)); err != nil {
			e.w.failf("%v", err)
		}
	}
}

// play posts once the connection is established, polls completions, and reports whether all
// requests have completed.
func (e *streamEnd) play() bool {
	if !e.established {
		return e.ended || e.stream == nil && e.peer.ended
	}
	if !e.posted {
		e.posted = true
		if err := rig.PostSend(e.qp, e.plan...); err != nil {
			e.w.failf("%v", err)
		}
	}
	var list [8]queue.CQE
	for n := rig.Poll(e.cq, list[:]); n > 0; n = rig.Poll(e.cq, list[:]) {
		for _, c := range list[:n] {
			e.completed(&c)
		}
	}
	for n := rig.Poll(e.recvCQ, list[:]); n > 0; n = rig.Poll(e.recvCQ, list[:]) {
		for _, c := range list[:n] {
			e.got(&c)
		}
	}
	if !e.flushed {
		e.receive()
	}
	sent := e.done == len(e.plan)
	return sent && (e.received == len(e.messages) || e.ended || e.flushed)
}

// completed checks a completion of the send queue: they come in the order of posting, and no
// success follows a failure.
func (e *streamEnd) completed(c *queue.CQE) {
	if c.WRID != uint64(e.done) {
		e.w.failf("request %d completes, expected %d", c.WRID, e.done)
		return
	}
	switch e.done++; {
	case c.Status != queue.Success:
		e.bad = true
	case e.bad:
		e.w.failf("request %d succeeds behind one that failed", c.WRID)
	case !e.want[c.WRID]():
		e.w.failf("request %d brought other bytes", c.WRID)
	}
}

// got checks a completion of the receive queue.
func (e *streamEnd) got(c *queue.CQE) {
	if c.Status != queue.Success {
		e.flushed = true
		return
	}
	if e.flushed || e.received >= len(e.messages) || c.WRID != uint64(e.received) {
		e.w.failf("receive %d completes, expected %d of %d", c.WRID, e.received, len(e.messages))
		return
	}
	want := e.messages[e.received]
	at := streamSinks + e.received*longestSend
	if e.received++; int(c.ByteLen) != len(want) || !bytes.Equal(e.mem[at:at+len(want)], want) {
		e.w.failf("message %d of %d bytes, expected %d, or other bytes", c.WRID, c.ByteLen, len(want))
	}
}

// close closes everything, and returns what is left.
func (w *streamWorld) close() error {
	w.net.Sleep(10 * time.Second) // both ends close in order
	for i, e := range w.ends {
		if err := e.qp.Destroy(); err != nil {
			return err
		}
		if err := w.pds[i%2].Deregister(e.region); err != nil {
			return err
		}
		for _, c := range []*adapter.CQ{e.cq, e.recvCQ} {
			if err := c.Destroy(); err != nil {
				return err
			}
		}
	}
	for i, d := range w.devs {
		if n, _ := d.StreamCount(); n != 0 || w.links[i].Open() != 0 {
			w.failf("%d streams left, %d of the link", n, w.links[i].Open())
		}
		if err := w.pds[i].Dealloc(); err != nil {
			return err
		}
		if c := d.Count(); c != (object.Counts{}) {
			w.failf("left: %+v", c)
		}
		w.net.Release(d)
		if err := d.Close(); err != nil {
			return err
		}
	}
	return w.err
}

// TestStreamSeeds runs iWARP devices over streams that are segmented, delayed, coalesced and
// reset by the seed, against a plain model: exactly once, in order, the right bytes.
func TestStreamSeeds(t *testing.T) {
	whole, broken := streamSeeds(t, false)
	if whole == 0 || broken == 0 {
		t.Errorf("%d ends were whole, %d broken off, expected both", whole, broken)
	}
}

// TestStreamExitLosesNothingCompleted ends the program of one end as soon as a number of its
// requests has completed, while the link still holds data. All completed messages must arrive
// at the other end.
func TestStreamExitLosesNothingCompleted(t *testing.T) {
	held := 0
	for i := range uint64(60) {
		w, err := newStreamWorld(mixed(i+1), false, false, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		e := w.ends[0]
		stop, sends := w.rng.IntN(len(e.plan)), 0
		w.exits = func() bool {
			if e.done <= stop {
				return false
			}
			w.links[0].Exit()
			return true
		}
		if err := w.run(true); err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		for _, s := range e.plan[:stop+1] {
			if s.Op == queue.Send {
				sends++
			}
		}
		if e.peer.received < sends {
			t.Errorf("seed %d: the peer received %d messages of %d that have completed", i, e.peer.received, sends)
		}
		if len(e.peer.messages) > e.peer.received {
			held++
		}
	}
	if held == 0 {
		t.Error("every program had sent all before it ended: nothing was tested")
	}
}

// TestStreamSeedsOverTCP does the same over TCP segments that are queued, lost and duplicated.
func TestStreamSeedsOverTCP(t *testing.T) {
	if whole, broken := streamSeeds(t, true); whole == 0 || broken > 0 {
		t.Errorf("%d ends were whole, %d broken off, expected none", whole, broken)
	}
}

// streamSeeds runs the seeds and returns how many ends survived and how many broke.
func streamSeeds(t *testing.T, tcp bool) (whole, broken int) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 25
	}
	for i := range seeds {
		seed := mixed(i + 1)
		cut := i%3 == 2 && !tcp
		var hashes [2]uint64
		for k := range 2 {
			w, err := newStreamWorld(seed, cut, tcp, 0)
			if err == nil {
				err = w.run(cut)
			}
			if err != nil {
				t.Fatalf("seed %d: %v", i, err)
			}
			hashes[k] = w.net.Hash()
			for _, e := range w.ends {
				if e.bad || !e.established {
					broken++
				} else {
					whole++
				}
			}
			if i%10 != 0 {
				hashes[1] = hashes[0]
				break
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("seed %d does not run the same way twice", i)
		}
	}
	t.Logf("%d ends were whole, %d broken off", whole, broken)
	return whole, broken
}
