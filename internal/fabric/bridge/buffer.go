package bridge

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// A BufferConfig is the buffer that all ports of a switch share.
//
//	+---------------------+---------------------------+------------------------+
//	| reserve of each     | shared: by dynamic        | headroom of each port  |
//	| port and priority   | threshold                 | and lossless priority  |
//	+---------------------+---------------------------+------------------------+
//
// A port and priority may have alpha times the free shared part. More of a lossy priority is
// dropped. More of a lossless one makes the port pause its neighbor, and what is still under way
// takes the headroom.
type BufferConfig struct {
	Size    int // bytes; DefaultBuffer if 0
	Cell    int // bytes of the units in which a frame takes room; DefaultCell if 0
	Reserve int // bytes of each port and priority that has frames

	// Alpha of lossless and of lossy priorities as frames arrive, and of the queues of lossy ones, as
	// powers of 2: -1 is a half. At most MaxAlpha.
	Lossless, Lossy, Queue Alpha

	Resume int // bytes below the threshold at which a pause ends; DefaultResume if 0
}

// An Alpha is the power of 2 by which the free part of the buffer is multiplied.
type Alpha int8

// Limits of an Alpha.
const (
	MinAlpha Alpha = -8
	MaxAlpha Alpha = 8
)

// Defaults of a buffer: 32 MiB in cells of 256 bytes, and two long frames between a threshold and
// the end of a pause.
const (
	DefaultBuffer = 32 << 20
	DefaultCell   = 256
	DefaultResume = 2 * dcb.DefaultMTU
)

// of returns alpha times n.
func (a Alpha) of(n int32) int32 {
	if a < 0 {
		return n >> -max(a, MinAlpha)
	}
	return int32(min(int64(n)<<min(a, MaxAlpha), 1<<31-1))
}

// buffer counts cells.
type buffer struct {
	config  BufferConfig
	reserve int32
	resume  int32
	booked  int64 // of reserves and headroom, perhaps more than there are
	shared  int32 // size of the shared part
	used    int32 // of it
	peak    int32
}

// A group is what a port's arrivals on one priority take of the buffer.
type group struct {
	held     int32 // cells, without those in the headroom
	headroom int32 // cells in the headroom
	limit    int32 // of the headroom
	peak     int32 // of headroom
}

func (b *buffer) init(c *Config) {
	b.config = c.Buffer
	if b.config.Size == 0 {
		b.config.Size = DefaultBuffer
	}
	if b.config.Cell == 0 {
		b.config.Cell = DefaultCell
	}
	if b.config.Resume == 0 {
		b.config.Resume = DefaultResume
	}
	b.reserve, b.resume = b.cells(b.config.Reserve), b.cells(b.config.Resume)
	b.shared = int32(b.config.Size / b.config.Cell)
}

// cells returns the number of cells that n bytes take.
func (b *buffer) cells(n int) int32 { return int32((n + b.config.Cell - 1) / b.config.Cell) }

// Reserve sets aside the reserves and the headroom of the ports. It reports whether the buffer has
// room for them. Call it before the first frame, and after a port's lossless priorities have changed.
func (s *Switch) Reserve() bool {
	b := &s.buffer
	b.booked = 0
	for i := 1; i < len(s.ports); i++ {
		p := &s.ports[i]
		for k := range p.groups {
			p.groups[k].limit = 0
			if p.lossless(uint8(k)) {
				p.groups[k].limit = b.cells(p.config.Headroom)
			}
			b.booked += int64(p.groups[k].limit + b.reserve)
		}
	}
	left := int64(b.config.Size/b.config.Cell) - b.booked
	b.shared = int32(max(left, 0))
	return left > 0
}

// Booked returns the bytes of all reserves and headroom, and those of the buffer, of which a part is to be
// left for all ports.
func (s *Switch) Booked() (booked, size int) {
	b := &s.buffer
	return int(b.booked) * b.config.Cell, b.config.Size
}

// lossless reports whether the port pauses a priority instead of dropping its frames.
func (p *Port) lossless(priority uint8) bool {
	c := p.Port.Config()
	return c.Pause != dcb.NoPause && c.Lossless&(1<<priority) != 0
}

// beyond returns what a group takes of the shared part.
func (b *buffer) beyond(held int32) int32 { return max(0, held-b.reserve) }

// admit gives a frame that has arrived its room in the buffer, or drops it.
func (s *Switch) admit(now dcb.Time, f *dcb.Frame) bool {
	b, p := &s.buffer, &s.ports[f.In]
	g := &p.groups[f.Priority]
	n := b.cells(int(f.Len))
	lossless := p.lossless(f.Priority)
	alpha := b.config.Lossy
	if lossless {
		alpha = b.config.Lossless
	}
	free := b.shared - b.used
	after := b.beyond(g.held + n)
	more := after - b.beyond(g.held)
	switch {
	case more == 0 || more <= free && after <= alpha.of(free):
		g.held += n
		b.used += more
		b.peak = max(b.peak, b.used)
	case !lossless:
		s.drop(now, int(f.In), f, b.detail(reason.EthernetBufferFull, min(free, alpha.of(free)-b.beyond(g.held)), n))
		return false
	case g.headroom+n > g.limit:
		s.drop(now, int(f.In), f, b.detail(reason.EthernetHeadroom, g.limit, g.headroom+n))
		return false
	default:
		g.headroom += n
		g.peak = max(g.peak, g.headroom)
		if p.Stopped()&(1<<f.Priority) == 0 {
			p.Stop(f.Priority)
			s.schedule(int(f.In))
		}
	}
	f.Cells = n
	return true
}

// detail is a reason with the bytes of cells that there are and that are needed.
func (b *buffer) detail(r reason.Reason, room, need int32) reason.Detail {
	cell := uint64(b.config.Cell)
	return reason.Detail{Reason: r, Expected: uint64(max(0, room)) * cell, Found: uint64(need) * cell}
}

// free takes a frame out of the buffer, from the headroom first.
func (s *Switch) free(f *dcb.Frame) {
	b, p := &s.buffer, &s.ports[f.In]
	g := &p.groups[f.From]
	head := min(g.headroom, f.Cells)
	g.headroom -= head
	before := b.beyond(g.held)
	g.held -= f.Cells - head
	shared := b.beyond(g.held)
	b.used -= before - shared
	f.Cells = 0
	if p.Stopped()&(1<<f.From) != 0 && g.headroom == 0 &&
		(shared == 0 || shared+b.resume <= b.config.Lossless.of(b.shared-b.used)) {
		p.Go(f.From)
		s.schedule(int(f.In))
	}
}

// limit returns why a queue of a lossy priority takes no more, with no reason if it does.
func (b *buffer) limit(s *Switch, p *Port, f *dcb.Frame) (d reason.Detail) {
	if f.In == 0 || s.ports[f.In].lossless(f.From) {
		return d
	}
	n, most := p.Queue(f.Priority).Cells+f.Cells, b.config.Queue.of(b.shared-b.used)
	if n > most {
		return b.detail(reason.EthernetQueueFull, most, n)
	}
	return d
}

// A Buffer is what a switch's buffer holds, in bytes of cells.
type Buffer struct {
	Shared, Used, Peak int // of the shared part
}

// Buffer returns what the buffer holds.
func (s *Switch) Buffer() Buffer {
	b := &s.buffer
	return Buffer{int(b.shared) * b.config.Cell, int(b.used) * b.config.Cell, int(b.peak) * b.config.Cell}
}

// Held returns the bytes of cells that a port's arrivals on a priority take, those in the headroom
// among them, and the most that they ever took of the headroom.
func (s *Switch) Held(number int, priority uint8) (held, headroom, peak int) {
	g := &s.ports[number].groups[priority%ethernet.Priorities]
	cell := s.buffer.config.Cell
	return int(g.held+g.headroom) * cell, int(g.headroom) * cell, int(g.peak) * cell
}

// A Marking is when frames of a priority are marked with ECN's CE: with a probability that grows
// from 0 to Most between queues of Min and Max bytes, and always beyond Max. The zero value marks
// nothing.
type Marking struct {
	Min, Max int
	Most     float64 // probability at Max, 0 to 1
	Drop     bool    // frames of lossy priorities that cannot be marked are dropped instead
}

// mark marks a frame that is about to join a queue. It returns why to drop it, with no reason if
// it is not to be dropped.
func (s *Switch) mark(m *Marking, p *Port, f *dcb.Frame) (d reason.Detail) {
	length := p.Queue(f.Priority).Bytes
	if length <= m.Min || length <= m.Max && !s.chance(m.Most*float64(length-m.Min)/float64(max(1, m.Max-m.Min))) {
		return d
	}
	if f.ECN != dcb.NotECT {
		if f.ECN != dcb.CE {
			f.Mark()
		}
		p.Count(f.Priority).Marked++
		return d
	}
	if m.Drop && f.In != 0 && !s.ports[f.In].lossless(f.From) {
		return reason.Detail{Reason: reason.EthernetEarly, Expected: uint64(m.Min), Found: uint64(length)}
	}
	return d
}

// chance is true with a probability.
func (s *Switch) chance(p float64) bool { return float64(s.rand()>>11) < p*(1<<53) }
