package simnet

import (
	"net/netip"
	"slices"
	"time"
)

// A TCPConfig configures TCP as the carrier of streams, over packets that the network queues
// and loses.
type TCPConfig struct {
	MSS    int           // bytes of a segment; 0 means 1,448
	MinRTO time.Duration // minimum retransmission time-out; 0 means 200 ms, as in Linux
}

// tcpHeader is the size of a segment's headers without the IP header: 20 bytes and Linux's
// time stamps.
const tcpHeader = 32 - 8 // wireOverhead includes eight bytes of UDP

// A segment is a TCP packet: data from a sequence number on, or an acknowledge.
type segment struct {
	to   *tcp
	ack  bool
	seq  uint64        // of the first byte; in an acknowledge, all bytes below it have arrived
	last uint64        // in an acknowledge, the sequence number of the acknowledged segment
	n    int           // bytes
	sent time.Duration // when the segment left; in an acknowledge, when the acknowledged segment left
}

// A tcp is one direction of a stream: the sender's half, and the receiver's. It models NewReno
// with selective acknowledges: slow start from ten segments, halving once per round trip with
// a loss (RFC 5681, 6582), time-based loss detection (RFC 8985: a segment is lost when one
// that left after it has arrived, because the network keeps the order of a stream), tail loss
// probes of the same RFC, and retransmission time-outs (RFC 6298). Each segment is
// acknowledged at once. The receiver's window has no limit.
type tcp struct {
	s      *stream // the writing end
	config TCPConfig

	buffer   []byte // written data, starting at una
	una, nxt uint64 // first unacknowledged and first unsent byte
	flight   []flown
	window   float64 // congestion window in bytes
	slow     float64 // slow start threshold
	recover  uint64  // where the current recovery ends
	srtt     time.Duration
	variance time.Duration
	backoff  int
	due      time.Duration // of the timer
	armed    bool          // an event of the timer is scheduled
	probed   bool          // the last expiry sent a probe

	next uint64 // the receiver has everything below
	held []heldSegment
}

// A flown is a segment that was sent and not acknowledged.
type flown struct {
	seq     uint64
	n       int
	sent    time.Duration
	again   bool // it was retransmitted
	arrived bool // selectively acknowledged
	lost    bool
}

type heldSegment struct {
	seq  uint64
	data []byte
}

const (
	defaultMSS    = 1448
	defaultMinRTO = 200 * time.Millisecond
	maxRTO        = 2 * time.Minute
	firstWindow   = 10 // segments, RFC 6928
	clockGrain    = time.Millisecond
)

func newTCP(s *stream, c TCPConfig) *tcp {
	if c.MSS == 0 {
		c.MSS = defaultMSS
	}
	if c.MinRTO == 0 {
		c.MinRTO = defaultMinRTO
	}
	return &tcp{s: s, config: c, window: float64(firstWindow * c.MSS), slow: 1 << 62}
}

// AttachTCP makes a link of streams whose bytes travel as TCP segments over a link of packets
// with this address, through its faults and the switches of the network. StreamConfig.Window
// is the send buffer, and Delay is the delay of connecting. Streams.Local has no port, while
// segments go between addresses with port numbers.
func (n *Network) AttachTCP(local netip.Addr, lc LinkConfig, sc StreamConfig, tc TCPConfig) *StreamLink {
	l := n.AttachStreams(local, sc)
	l.tcp = &tc
	l.packets = n.Attach(netip.AddrPortFrom(local, 0), lc)
	l.packets.segments = func(p *packet) { p.segment.to.arrive(p) }
	return l
}

// Packets returns the link that carries the segments of a link of TCP streams.
func (l *StreamLink) Packets() *Link { return l.packets }

// write accepts bytes of the program.
func (t *tcp) write(b []byte) {
	t.buffer = append(t.buffer, b...)
	t.push()
}

func (t *tcp) now() time.Duration { return t.s.l.net.now }

// pipe returns the number of bytes in flight.
func (t *tcp) pipe() (n int) {
	for i := range t.flight {
		if f := &t.flight[i]; !f.arrived && !f.lost {
			n += f.n
		}
	}
	return n
}

// push sends what the window permits, lost segments first.
func (t *tcp) push() {
	room := int(t.window) - t.pipe()
	for i := range t.flight {
		f := &t.flight[i]
		if !f.lost {
			continue
		}
		if room < f.n {
			return
		}
		t.resend(f)
		room -= f.n
	}
	for end := t.una + uint64(len(t.buffer)); t.nxt < end; {
		n := int(min(uint64(t.config.MSS), end-t.nxt))
		if room < n {
			return
		}
		t.flight = append(t.flight, flown{seq: t.nxt, n: n, sent: t.now()})
		t.emit(t.nxt, n)
		t.nxt += uint64(n)
		room -= n
	}
}

func (t *tcp) resend(f *flown) {
	f.lost, f.again, f.sent = false, true, t.now()
	t.emit(f.seq, f.n)
}

// emit sends a segment.
func (t *tcp) emit(seq uint64, n int) {
	l := t.s.l
	p := l.net.packet(tcpHeader + n)
	clear(p.data[:tcpHeader])
	copy(p.data[tcpHeader:], t.buffer[seq-t.una:][:n])
	p.segment = segment{to: t, seq: seq, n: n, sent: t.now()}
	t.leave(l, t.s, p)
	if !t.armed || t.due == never {
		t.restart()
	}
}

// leave sends a packet of an end of the stream.
func (t *tcp) leave(l *StreamLink, from *stream, p *packet) {
	// The peer's link has port 0. The source port distinguishes streams where switches choose
	// a path.
	p.src, p.dst, p.tos, p.hops = from.local, withPort(from.remote, 0), 0, 64
	l.net.note(noteSent, l.packets.index, p)
	l.packets.out.pass(l.net, l.packets.index, place{}, p)
}

// arrive handles a packet at its receiver.
func (t *tcp) arrive(p *packet) {
	if p.segment.ack {
		t.acknowledged(&p.segment)
		return
	}
	t.received(&p.segment, p.data[tcpHeader:])
}

// received handles a segment at the receiver, and acknowledges it.
func (t *tcp) received(g *segment, data []byte) {
	peer := t.s.peer
	if peer.gone {
		return
	}
	if g.seq >= t.next {
		i, twice := slices.BinarySearchFunc(t.held, g.seq, func(h heldSegment, seq uint64) int {
			return int(int64(h.seq - seq))
		})
		if !twice {
			t.held = slices.Insert(t.held, i, heldSegment{g.seq, slices.Clone(data)})
		}
		before := t.next
		for len(t.held) > 0 && t.held[0].seq == t.next {
			peer.in = append(peer.in, t.held[0].data...)
			t.next += uint64(len(t.held[0].data))
			t.held = t.held[1:]
		}
		if t.next > before {
			peer.readable()
		}
	}
	a := peer.l.net.packet(tcpHeader)
	clear(a.data)
	a.segment = segment{to: t, ack: true, seq: t.next, last: g.seq, sent: g.sent}
	t.leave(peer.l, peer, a)
}

// acknowledged handles an acknowledge at the sender.
func (t *tcp) acknowledged(g *segment) {
	if t.s.gone && len(t.buffer) == 0 {
		return
	}
	now := t.now()
	t.measure(now - g.sent)
	acked := 0
	newest := time.Duration(-1)
	for i := range t.flight {
		f := &t.flight[i]
		if f.seq+uint64(f.n) <= g.seq || f.seq == g.last {
			if !f.arrived {
				acked += f.n
			}
			f.arrived, f.lost = true, false
			if f.seq == g.last {
				newest = g.sent
			}
		}
	}
	t.lose(newest, g.last)
	if g.seq > t.una {
		t.advance(g.seq)
	}
	if acked > 0 {
		t.backoff, t.probed = 0, false
		t.grow(acked)
		t.restart()
	}
	t.push()
}

// lose marks segments as lost that left before one that has arrived, which left at newest with
// the sequence number last (RFC 8985 6.2). It halves the window once per round trip.
func (t *tcp) lose(newest time.Duration, last uint64) {
	lost := false
	for i := range t.flight {
		f := &t.flight[i]
		if !f.arrived && !f.lost && (f.sent < newest || f.sent == newest && f.seq < last) {
			f.lost, lost = true, true
		}
	}
	if lost && t.una >= t.recover {
		t.recover = t.nxt
		t.slow = max(float64(t.pipe())/2, float64(2*t.config.MSS))
		t.window = t.slow
	}
}

// advance removes everything below seq, and gives the room in the send buffer to the program.
func (t *tcp) advance(seq uint64) {
	n := int(seq - t.una)
	t.buffer = t.buffer[n:]
	t.una = seq
	i := 0
	for i < len(t.flight) && t.flight[i].seq < seq {
		i++
	}
	t.flight = slices.Delete(t.flight, 0, i)
	t.s.room(n)
	t.s.finish()
}

// grow opens the window for bytes that have arrived (RFC 5681).
func (t *tcp) grow(n int) {
	switch {
	case t.una < t.recover:
	case t.window < t.slow:
		t.window += float64(n)
	default:
		t.window += float64(t.config.MSS) * float64(n) / t.window
	}
}

// measure takes a sample of the round trip (RFC 6298).
func (t *tcp) measure(sample time.Duration) {
	if t.srtt == 0 {
		t.srtt, t.variance = sample, sample/2
		return
	}
	t.variance += ((t.srtt - sample).Abs() - t.variance) / 4
	t.srtt += (sample - t.srtt) / 8
}

// rto returns the retransmission time-out.
func (t *tcp) rto() time.Duration {
	d := max(t.srtt+max(clockGrain, 4*t.variance), t.config.MinRTO)
	if t.srtt == 0 {
		d = time.Second
	}
	return min(d<<t.backoff, maxRTO)
}

// restart sets the timer for the data in flight: for a probe first, if there is more than one
// segment (RFC 8985 7.2).
func (t *tcp) restart() {
	t.due = never
	if len(t.flight) == 0 {
		return
	}
	d := t.rto()
	if len(t.flight) > 1 && !t.probed && t.backoff == 0 && t.srtt > 0 {
		d = min(d, 2*t.srtt+2*clockGrain)
	}
	t.due = t.now() + d
	t.arm()
}

// arm schedules the event of the timer. Events cannot be cancelled, so an event that comes too
// early schedules the next.
func (t *tcp) arm() {
	if t.armed {
		return
	}
	t.armed = true
	t.s.l.net.call(t.due, func() {
		t.armed = false
		switch {
		case t.due == never || t.s.err != nil:
		case t.now() < t.due:
			t.arm()
		default:
			t.expire()
		}
	})
}

// expire sends a probe, or retransmits everything.
func (t *tcp) expire() {
	if len(t.flight) > 1 && !t.probed && t.backoff == 0 {
		t.probed = true
		t.resend(&t.flight[len(t.flight)-1])
		t.restart()
		return
	}
	t.slow = max(float64(t.pipe())/2, float64(2*t.config.MSS))
	t.window = float64(t.config.MSS)
	t.recover = t.nxt
	t.backoff++
	for i := range t.flight {
		t.flight[i].lost = !t.flight[i].arrived
	}
	t.restart()
	t.push()
}
