package simulate

import (
	"fmt"
	"math/rand/v2"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/simulate/hosts"
	"softrdma/internal/simulate/scenario"
)

// A source starts traffic.
type source interface {
	// next starts what is due, and returns when to call it again, dcb.Never for not at all.
	next(now dcb.Time) dcb.Time
}

// A pattern starts the messages of a traffic, once or again and again.
type pattern struct {
	r      *run
	number int
	t      *scenario.Traffic
	random *rand.Rand // of the seed and the traffic, whatever other traffic there is
	start  func(now dcb.Time)
}

func (p *pattern) next(now dcb.Time) dcb.Time {
	p.start(now)
	if at := now + p.t.Every.Time(); p.t.Every > 0 && at < p.t.Stop.Time() {
		return at
	}
	return dcb.Never
}

// add adds a traffic. It refuses random messages that are too many.
func (r *run) add(number int, t *scenario.Traffic) error {
	var from source
	all := t.Hosts
	if len(all) == 0 {
		for i := range r.h.Nodes() {
			all = append(all, i)
		}
	}
	p := &pattern{r: r, number: number, t: t, random: rand.New(rand.NewPCG(r.result.Seed, uint64(number)))}
	switch from = p; t.Kind {
	case scenario.Incast:
		p.start = func(now dcb.Time) { p.incast(now, all) }
	case scenario.Permute:
		p.start = func(now dcb.Time) { p.permute(now, all) }
	case scenario.AllToAll:
		p.start = func(now dcb.Time) { p.allToAll(now, all) }
	case scenario.Ring:
		p.start = func(now dcb.Time) { newRing(p, now, all) }
	case scenario.Tree:
		p.start = func(now dcb.Time) { newTree(p, now, all) }
	case scenario.Storm:
		from = &storm{pattern: p, all: all}
	case scenario.Message:
		p.start = func(now dcb.Time) {
			for i := range t.From {
				p.message(now, t.From[i], t.To[min(i, len(t.To)-1)], uint32(t.Size))
			}
		}
	case scenario.Streaming:
		p.start = func(now dcb.Time) {
			for i := range t.From {
				r.stream(now, number, t.From[i], t.To[min(i, len(t.To)-1)])
			}
		}
	default:
		x := newPoisson(p, all)
		if n := float64((t.Stop - t.Start).Time()) / x.mean; n > scenario.MaxTotal {
			return fmt.Errorf("traffic %q: expected at most %d messages, found about %.3g: choose a smaller load, larger messages or less time", t.Name, scenario.MaxTotal, n)
		}
		from = x
	}
	timer := r.h.Timer()
	r.sources = append(r.sources, from)
	r.busy++
	r.h.SetTimer(timer, t.Start.Time())
	return nil
}

func (p *pattern) incast(now dcb.Time, all []int) {
	to := all[0]
	if len(p.t.To) > 0 {
		to = p.t.To[0]
	}
	for _, from := range all {
		if from != to {
			p.message(now, from, to, uint32(p.t.Size))
		}
	}
}

// permute draws a cycle of all hosts: a host never sends to itself.
func (p *pattern) permute(now dcb.Time, all []int) {
	order := p.random.Perm(len(all))
	for i := range order {
		p.message(now, all[order[i]], all[order[(i+1)%len(order)]], uint32(p.t.Size))
	}
}

// allToAll lets each host begin with the one behind it, because a common order would be an incast.
func (p *pattern) allToAll(now dcb.Time, all []int) {
	for shift := 1; shift < len(all); shift++ {
		for i := range all {
			p.message(now, all[i], all[(i+shift)%len(all)], uint32(p.t.Size))
		}
	}
}

// A message is a message on a connection of its own.
type message struct {
	r     *run
	index int
}

// message sends a message from a host to another one.
func (p *pattern) message(now dcb.Time, from, to int, size uint32) {
	r := p.r
	a, b := r.node(from), r.node(to)
	m := &message{r, r.started(p.number, from, to, int64(size), now, r.paths.message(a, b, int(size)))}
	c := r.connect(now, p.number, a, b, 1)
	c.User = m
	c.Post(now, 0, size)
}

func (m *message) sent(now dcb.Time, c *hosts.Conn, _ uint64) {
	m.r.ended(m.index, now)
	c.Close(now)
}

func (m *message) received(dcb.Time, uint32) {}

func (m *message) failed(now dcb.Time, c *hosts.Conn, _ reason.Detail) {
	m.r.ends(now)
	c.Close(now)
}

// started notes a message that begins, and returns its number.
func (r *run) started(traffic, from, to int, size int64, now, ideal dcb.Time) int {
	r.busy++
	r.result.Messages = append(r.result.Messages, Message{
		Traffic: traffic, From: from, To: to, Size: size, Start: now, Ideal: ideal, End: dcb.Never,
	})
	return len(r.result.Messages) - 1
}

// ended notes a message that has been acknowledged.
func (r *run) ended(index int, now dcb.Time) {
	r.ends(now)
	r.result.Messages[index].End = now
}

// A storm is hosts that take nothing for a time.
type storm struct {
	*pattern
	all []int
	on  bool
}

func (x *storm) next(now dcb.Time) dcb.Time {
	for _, i := range x.all {
		if node := x.r.node(i); x.on {
			x.r.h.Resume(now, node)
		} else {
			x.r.h.Halt(now, node)
		}
	}
	if x.on = !x.on; x.on {
		return x.t.Stop.Time()
	}
	return dcb.Never
}

// A stream sends without an end.
type stream struct {
	r       *run
	c       *hosts.Conn
	traffic int
	from    int
	to      int
	warm    uint64 // bytes received until the end of the warm-up, and when that was
	warmAt  dcb.Time
	closed  bool
	until   dcb.Time
	seen    uint64 // at the last sample
	bytes   uint64 // at the end
}

// streamPart is the size of the messages of a stream.
const streamPart = 1 << 28

func (r *run) stream(now dcb.Time, traffic, from, to int) {
	x := &stream{r: r, traffic: traffic, from: from, to: to, warmAt: now, until: r.s.Traffic[traffic].Stop.Time()}
	x.c = r.connect(now, traffic, r.node(from), r.node(to), 2)
	x.c.User = x
	r.streams = append(r.streams, x)
	r.busy++
	for range 2 {
		x.c.Post(now, 0, streamPart)
	}
}

func (x *stream) sent(now dcb.Time, c *hosts.Conn, _ uint64) { c.Post(now, 0, streamPart) }
func (x *stream) received(dcb.Time, uint32)                  {}

// failed closes the connection, which would fail once more for each of its messages.
func (x *stream) failed(now dcb.Time, c *hosts.Conn, _ reason.Detail) {
	x.until = now
	c.Close(now)
}

// stop ends a stream. It is called between two steps.
func (x *stream) stop(now dcb.Time) {
	if x.closed {
		return
	}
	x.closed, x.until, x.bytes = true, min(x.until, now), x.c.Received()
	x.c.Close(now)
	x.r.ends(now)
}

// received returns the bytes that have arrived.
func (x *stream) total() uint64 {
	if x.closed {
		return x.bytes
	}
	return x.c.Received()
}

// A poisson starts messages of random sizes between random hosts, as a Poisson process.
type poisson struct {
	*pattern
	all  []int
	mean float64 // picoseconds between two messages
}

func newPoisson(p *pattern, all []int) *poisson {
	x := &poisson{pattern: p, all: all}
	size := float64(p.t.Size)
	if p.t.Sizes != "" {
		size = p.t.Sizes.Mean()
	}
	rate := 0.0 // bytes in a picosecond
	for _, h := range all {
		rate += p.t.Load / float64(p.r.paths.link(p.r.paths.gateway(p.r.node(h))).perByte)
	}
	x.mean = size / rate
	return x
}

func (x *poisson) next(now dcb.Time) dcb.Time {
	if now > x.t.Start.Time() { // the first call is before the first message
		from := x.random.IntN(len(x.all))
		to := (from + 1 + x.random.IntN(len(x.all)-1)) % len(x.all)
		size := uint32(x.t.Size)
		if x.t.Sizes != "" {
			size = x.t.Sizes.Draw(x.random)
		}
		x.message(now, x.all[from], x.all[to], size)
	}
	wait := x.random.ExpFloat64() * x.mean
	if stop := x.t.Stop.Time(); wait < float64(stop) && now+1+dcb.Time(wait) < stop {
		return now + 1 + dcb.Time(wait)
	}
	return dcb.Never // and wait may be more than a Time holds
}
