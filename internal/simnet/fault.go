package simnet

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"softrdma/internal/frame/rocev1"
	"softrdma/internal/wire/ib"
)

// Faults are the faults of one direction of a link. Probabilities are from 0 to 1 per packet.
// The zero value is a fast network without faults.
type Faults struct {
	Loss      float64
	Duplicate float64 // the copy follows its packet within Jitter
	Corrupt   float64 // one to four bits flip, in the source port, headers or payload
	Reorder   float64 // the packet is delayed by up to ReorderBy, and others overtake it

	ReorderBy time.Duration // 0 means four times the delay
	Delay     time.Duration // minimum; 0 means a microsecond
	Jitter    time.Duration // maximum of additional delay, without reordering

	Bandwidth int64 // bits per second on the wire; 0 is unlimited
	Queue     int   // bytes that may be queued; 0 means 1 MiB
	MarkAbove int   // queued bytes above which ECN-capable packets are marked CE; 0 means never

	// Bleached means that the network clears the ECN field of IP headers.
	Bleached bool

	// MTU is the longest datagram payload that passes without being fragmented; 0 means no limit.
	MTU int

	// NoFragments means that longer datagrams do not pass in fragments either.
	NoFragments bool
}

// Stats count the packets of one direction by result.
type Stats struct {
	Packets    int // that entered this direction
	Lost       int
	Duplicated int
	Corrupted  int
	Reordered  int
	Marked     int
	QueueFull  int // lost because the queue was full
	TooLong    int // lost because longer than the MTU
	Peak       int // largest queue in bytes
}

const (
	defaultDelay = time.Microsecond
	defaultQueue = 1 << 20

	// wireOverhead is the size of a datagram on Ethernet besides its payload: preamble,
	// header, FCS, gap, IPv4 and UDP.
	wireOverhead = 8 + 14 + 4 + 12 + 20 + 8
)

// A direction is one direction of a link with its faults.
type direction struct {
	faults Faults
	random *rand.Rand
	busy   time.Duration // when the wire becomes free
	last   time.Duration // arrival of the last packet that was not reordered
	stats  Stats
}

// chance reports whether an event of this probability happens. For probability 0 it draws no
// number, so that a new kind of fault does not change old seeds.
func (d *direction) chance(p float64) bool { return p > 0 && d.random.Float64() < p }

// pass passes a packet through the direction of the link with an index. It then
// arrives at to or nowhere.
func (d *direction) pass(n *Network, index int, to place, p *packet) {
	f := &d.faults
	d.stats.Packets++
	if f.MTU > 0 && len(p.data) > f.MTU && (!p.fragments || f.NoFragments) {
		d.stats.TooLong++
		n.lose(noteTooLong, index, p)
		return
	}
	if f.Bleached {
		p.tos &^= 3
	}
	at, ok := d.queue(n, index, p)
	if !ok {
		return
	}
	if d.chance(f.Loss) {
		d.stats.Lost++
		n.lose(noteLost, index, p)
		return
	}
	if d.chance(f.Corrupt) {
		d.stats.Corrupted++
		d.corrupt(p)
		n.note(noteCorrupted, index, p)
	}
	at += d.delay()
	if d.chance(f.Reorder) {
		d.stats.Reordered++
		n.note(noteReordered, index, p)
		at += d.lateness()
	} else {
		at = max(at, d.last)
		d.last = at
	}
	if d.chance(f.Duplicate) {
		d.stats.Duplicated++
		n.note(noteDuplicated, index, p)
		n.schedule(at+d.jitter(), to, n.copy(p))
	}
	n.schedule(at, to, p)
}

// queue delays the packet until the wire is free. It returns when the packet has left the
// wire, and false if the queue was full.
func (d *direction) queue(n *Network, index int, p *packet) (time.Duration, bool) {
	f := &d.faults
	if f.Bandwidth == 0 {
		return n.now, true
	}
	room := f.Queue
	if room == 0 {
		room = defaultQueue
	}
	d.busy = max(d.busy, n.now)
	waiting := int((d.busy - n.now).Seconds() * float64(f.Bandwidth) / 8)
	if waiting+len(p.data) > room {
		d.stats.QueueFull++
		n.lose(noteQueueFull, index, p)
		return 0, false
	}
	d.stats.Peak = max(d.stats.Peak, waiting+len(p.data))
	// RFC 3168, 5: a packet whose ECN field is 01 or 10 is marked 11 instead
	// of being dropped later.
	if f.MarkAbove > 0 && waiting > f.MarkAbove && (p.tos&3 == 1 || p.tos&3 == 2) {
		d.stats.Marked++
		p.tos |= 3
		n.note(noteMarked, index, p)
	}
	bits := int64(len(p.data)+wireOverhead) * 8
	on := time.Duration(bits * int64(time.Second) / f.Bandwidth)
	d.busy += on
	return d.busy, true
}

func (d *direction) delay() time.Duration {
	t := d.faults.Delay
	if t == 0 {
		t = defaultDelay
	}
	return t + d.jitter()
}

func (d *direction) jitter() time.Duration {
	if d.faults.Jitter <= 0 {
		return 0
	}
	return time.Duration(d.random.Int64N(int64(d.faults.Jitter) + 1))
}

func (d *direction) lateness() time.Duration {
	limit := d.faults.ReorderBy
	if limit == 0 {
		limit = 4 * max(d.faults.Delay, defaultDelay)
	}
	return time.Duration(1 + d.random.Int64N(int64(limit)))
}

// corrupt flips bits of the source port (of a frame: of the source GID), the headers, the
// payload or the ICRC.
//
// A receiver behind a UDP socket does not see the IPv4 identification and solves for it, so
// one corrupted packet in 65,536 has a valid ICRC for some identification. Also, one byte of
// the BTH, resv8a, is not covered. On a real network the UDP checksum detects both. Here more
// bits are flipped until the packet can be told from a valid one.
func (d *direction) corrupt(p *packet) {
	for flips := 1 + d.random.IntN(4); flips > 0 || undetected(p); flips-- {
		bit := d.random.IntN(16 + 8*len(p.data))
		switch {
		case bit < 16 && len(p.front) > 0: // end of the source GID
			p.front[sgidAt+14+bit/8] ^= 1 << (bit % 8)
			continue
		case bit < 16:
			p.src = withPort(p.src, p.src.Port()^1<<bit)
			continue
		}
		bit -= 16
		p.data[bit/8] ^= 1 << (bit % 8)
	}
}

func undetected(p *packet) bool {
	if len(p.front) > 0 {
		c := rocev1.ICRCPrefix(p.gid(sgidAt, 0).Addr(), p.gid(dgidAt, 0).Addr())
		return c.Sum(0, p.data) == ib.ICRC(p.data)
	}
	h := ib.NewPseudoHeader(p.src, p.dst)
	var c ib.Checker
	_, ok := c.Check(&h, 0, p.data)
	return ok
}

// lose drops a packet.
func (n *Network) lose(why note, index int, p *packet) {
	n.note(why, index, p)
	n.drop(p)
}

func withPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}
