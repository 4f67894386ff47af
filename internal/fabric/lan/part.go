package lan

import (
	"cmp"
	"math"
	"slices"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/dcb"
)

// A part is a share of the nodes, with their events. What a part does until a time can be noticed by
// another one only after the delay of a cable between them. So all parts can do what is due from the
// time of the next event on until the shortest of these delays has passed, at the same time and in any
// order (Chandy and Misra, 1979). Frames between parts are handed over after such a window of time.
type part struct {
	net    *Network
	number int
	first  int32   // of its ends in those of the network
	ends   []end   // a part of those of the network
	nodes  []int32 // by number in the part
	now    dcb.Time
	last   dcb.Time // of an event
	pool   dcb.Pool
	due    eventqueue.Deadlines[dcb.Time]
	events uint64
	sent   []int32 // ends of other parts with frames in end.foreign
	work   int     // events in the last window of time

	_ [64]byte // parts of different processors share no cache line
}

func (p *part) set(timer int, at dcb.Time) {
	if at == dcb.Never {
		p.due.Clear(timer)
		return
	}
	p.due.Set(timer, at)
}

// next returns when the next event happens, dcb.Never if there is none.
func (p *part) next() dcb.Time {
	_, at, ok := p.due.Next()
	if !ok {
		return dcb.Never
	}
	return at
}

// run lets happen what is due until a time, but not more than a number of events. It reports whether
// all of it has happened.
func (p *part) run(until dcb.Time, events int) bool {
	before := p.events
	done := p.loop(until, events)
	p.work = int(p.events - before)
	return done
}

func (p *part) loop(until dcb.Time, events int) bool {
	for ; events > 0; events-- {
		timer, at, ok := p.due.Next()
		if !ok || at > until {
			p.now = max(p.now, until)
			return true
		}
		p.now = max(p.now, at)
		p.last = p.now
		p.events++
		i := timer / 2
		if i >= len(p.ends) {
			if p.net.extras != nil && timer == p.net.extras.timer {
				p.net.extras.run()
				continue
			}
			p.due.Clear(timer)
			p.net.config.Expired(p.now, int(p.nodes[timer-2*len(p.ends)]))
			continue
		}
		e := &p.ends[i]
		switch {
		case timer%2 != 0:
			p.arrive(timer, e)
		case e.node.sw != nil:
			e.node.sw.Run(p.now, e.at.Port)
		default:
			e.node.host.Run(p.now)
			e.node.writable()
		}
	}
	return false
}

// arrive hands the first frame that is under way to an end over to its node.
func (p *part) arrive(timer int, e *end) {
	f := e.flights.Pop()
	if next := e.flights.First(); next != nil {
		p.due.Set(timer, e.arrival(next))
	} else {
		p.due.Clear(timer)
	}
	p.hand(e, f)
}

// hand gives a frame that has arrived at an end to its node.
func (p *part) hand(e *end, f *dcb.Frame) {
	if e.node.sw != nil {
		e.node.sw.Receive(p.now, e.at.Port, f)
		return
	}
	if f.Op != 0 && p.net.config.Pausing != nil {
		p.net.config.Pausing(p.now, e.node.index, f)
	}
	e.node.host.Receive(p.now, f)
}

// sendTo sends a frame to an end of another part.
func (p *part) sendTo(number int32, f *dcb.Frame) {
	e := &p.net.ends[number]
	if e.foreign == nil {
		e.foreign = new(dcb.List)
	}
	if e.foreign.Frames == 0 {
		p.sent = append(p.sent, number)
	}
	e.foreign.Push(f)
}

// handOver gives frames to the parts to which they were sent.
func (p *part) handOver() {
	for _, number := range p.sent {
		e := &p.net.ends[number]
		if q := e.node.part; e.flights.Frames == 0 {
			q.due.Set(2*int(number-q.first)+1, e.arrival(e.foreign.First()))
		}
		e.flights.Join(e.foreign)
	}
	p.sent = p.sent[:0]
}

// Now returns the time of the last event, or the time until which Run ran. While parts are at work it
// is not defined: functions of Config get the time as an argument.
func (n *Network) Now() dcb.Time {
	now := n.parts[0].now
	for _, p := range n.parts[1:] {
		now = min(now, p.now)
	}
	return now
}

// Parts returns the number of parts of the network.
func (n *Network) Parts() int { return len(n.parts) }

// Part returns the number of the part to which a node belongs.
func (n *Network) Part(node int) int { return n.nodes[node].part.number }

// Events returns the number of events so far.
func (n *Network) Events() (events uint64) {
	for _, p := range n.parts {
		events += p.events
	}
	return events
}

// Deadline returns when the next event happens, dcb.Never if there is none.
func (n *Network) Deadline() dcb.Time {
	at := dcb.Never
	for _, p := range n.parts {
		at = min(at, p.next())
	}
	return at
}

// Run lets everything happen that is due until a time.
func (n *Network) Run(until dcb.Time) {
	for !n.RunSome(until, math.MaxInt) {
	}
}

// RunSome is Run with a bound on the number of events, which parts may exceed a little. It reports
// whether all has happened that is due.
func (n *Network) RunSome(until dcb.Time, events int) bool {
	if len(n.parts) == 1 {
		return n.parts[0].run(until, events)
	}
	c := newCrew(min(n.config.Workers, len(n.parts)))
	defer c.end()
	for {
		first := n.Deadline()
		if first > until {
			for _, p := range n.parts {
				p.now = max(p.now, until)
			}
			return true
		}
		if events <= 0 {
			return false
		}
		last := first + min(until-first, n.ahead-1) // ahead is Never if no cable joins parts
		n.order = n.order[:0]
		for _, p := range n.parts {
			if p.next() <= last {
				n.order = append(n.order, p)
			}
		}
		// The one with the most to do comes first, so that workers end at about the same time.
		slices.SortFunc(n.order, func(a, b *part) int { return cmp.Compare(b.work, a.work) })
		c.run(n.order, last, n.work >= n.config.Grain)
		n.work = 0
		for _, p := range n.order {
			events -= p.work
			n.work += p.work
			p.handOver()
		}
		share(n.parts)
	}
}

// RunAhead lets everything happen that is due until a time, as Run does, but leaves the time at that
// of the last event: what is sent next is sent then, or later.
func (n *Network) RunAhead(until dcb.Time) {
	now := n.Now()
	n.Run(until)
	for _, p := range n.parts {
		p.now = max(now, min(p.now, p.last))
	}
}

// spare is the number of frames by which pools may differ.
const spare = 1024

// share evens out the unused frames of the parts: those that receive more frames than they send would
// have more and more.
func share(parts []*part) {
	for _, p := range parts {
		if p.pool.Used() > -spare {
			continue
		}
		most := slices.MaxFunc(parts, func(a, b *part) int { return cmp.Compare(a.pool.Used(), b.pool.Used()) })
		p.pool.Give(&most.pool, -p.pool.Used()-spare/2)
	}
}
