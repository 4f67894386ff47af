package cm

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

var (
	seedCount = flag.Int("seeds", 3000, "how many seeds TestSeeds plays")
	oneSeed   = flag.Uint64("seed", 0, "play this seed alone")
	tell      = flag.Bool("tell", false, "with -seed, print all messages and events")
)

// A party is the model of one connection as its user sees it, derived only from the events.
type party struct {
	h           *host
	c           *Conn
	active      bool
	established bool
	ended       bool // rejected, timed out, disconnected
	exited      bool // TimewaitExit
	destroyed   bool
	cause       string
}

// play is the run of one seed: hosts, faults and users that act at random times.
type play struct {
	w       *world
	parties map[*Conn]*party
	perfect bool // no losses and no dead hosts
	err     error
}

// TestSeeds simulates networks that lose, duplicate and reorder datagrams. Users accept, reject,
// delay, disconnect, destroy or do nothing for a while. Every connection must end either
// established on both sides or in a named error within bounded time, events must be in order, and
// nothing may be left.
func TestSeeds(t *testing.T) {
	first, n := uint64(1), uint64(*seedCount)
	if testing.Short() {
		n = min(n, 300)
	}
	if *oneSeed != 0 {
		first, n = *oneSeed, 1
	}
	outcomes := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		p := newPlay(t, seed)
		p.run()
		for _, x := range p.parties {
			outcomes[x.cause]++
		}
		if p.err != nil {
			t.Fatalf("%v\n\tgo test ./internal/cm -run TestSeeds -seed=%d", p.err, seed)
		}
	}
	t.Log(outcomes)
	if *oneSeed == 0 {
		// Guard against seeds that never reach the interesting outcomes.
		for _, want := range []string{"disconnected", "disconnected by the peer", "rejected 28", "rejected 4", "REQ timed out", "destroyed"} {
			if outcomes[want] == 0 {
				t.Errorf("no connection was ever %s", want)
			}
		}
	}
}

func newPlay(t *testing.T, seed uint64) *play {
	w := newWorld(t, seed)
	p := &play{w: w, parties: map[*Conn]*party{}}
	loss := []float64{0, 0.05, 0.2, 0.5}[w.rand.IntN(4)]
	double := []float64{0, 0.1, 0.5}[w.rand.IntN(3)]
	spread := []time.Duration{0, 3 * time.Millisecond, 60 * time.Millisecond}[w.rand.IntN(3)]
	p.perfect = loss == 0
	w.lose = func(*host, *mad.Header) bool { return w.rand.Float64() < loss }
	w.copies = func() int {
		if w.rand.Float64() < double {
			return 2 + w.rand.IntN(2)
		}
		return 1
	}
	w.delay = func() time.Duration {
		return time.Millisecond + time.Duration(w.rand.Int64N(int64(spread)+1))
	}
	for i := range 2 + w.rand.IntN(2) {
		h := w.host(fmt.Sprint("host ", i), fmt.Sprintf("192.0.2.%d:4791", i+1), uint64(i)+1)
		if _, err := h.m.Listen(0, service); err != nil {
			t.Fatal(err)
		}
		h.user = func(e seen) {
			w.tell("%v %s gets event %v, reject %d", w.now, h.name, e.Kind, e.Reject)
			p.react(h, e)
		}
	}
	return p
}

func (p *play) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (w *world) tell(format string, args ...any) {
	if *tell {
		w.t.Logf(format, args...)
	}
}

// react checks an event against the model and chooses the user's reaction.
func (p *play) react(h *host, e seen) {
	c := e.Conn
	x := p.parties[c]
	if e.Kind == EventReqReceived && x == nil {
		x = &party{h: h, c: c}
		p.parties[c] = x
	} else if e.Kind == EventReqReceived {
		x.active = false // in a simultaneous connect
	}
	if x == nil || x.destroyed {
		p.fail("%s heard %v of a connection that it does not have", h.name, e.Kind)
		return
	}
	// If both disconnect at once, the peer's DREP may arrive before this side's.
	crossed := e.Kind == EventDrepReceived && x.cause == "disconnected by the peer"
	if x.exited || x.ended && e.Kind != EventTimewaitExit && !crossed {
		p.fail("%s got event %v after the end (%s)", h.name, e.Kind, x.cause)
		return
	}
	switch e.Kind {
	case EventReqReceived, EventRepReceived:
		p.answer(x)
	case EventMraReceived:
	case EventRtuReceived, EventEstablished:
		x.establishedBy(p)
	case EventDreqReceived:
		if !x.established && x.active {
			p.fail("%s heard a DREQ before it was ready", h.name)
		}
		x.end("disconnected by the peer")
		p.later(func() { p.must(x, x.c.DisconnectReply(p.w.now, nil)) }, x)
	case EventDrepReceived:
		x.end("disconnected")
	case EventRejReceived:
		x.end(fmt.Sprintf("rejected %d", e.Reject))
	case EventReqTimeout:
		x.end("REQ timed out")
	case EventRepTimeout:
		x.end("REP timed out")
	case EventDreqTimeout:
		x.end("DREQ timed out")
	case EventTimewaitExit:
		if !x.ended {
			p.fail("%s: the time wait of a connection that did not end is over", h.name)
		}
		x.exited = true
	default:
		p.fail("%s heard %v", h.name, e.Kind)
	}
}

func (x *party) end(cause string) {
	if !x.ended {
		x.ended, x.cause = true, cause
	}
}

func (x *party) establishedBy(p *play) {
	if x.established {
		p.fail("%s: a connection is established twice", x.h.name)
	}
	x.established = true
}

// must fails on an error that the state does not explain. A call may come too late; its error says
// so.
func (p *play) must(x *party, err error) {
	if _, late := err.(*StateError); err != nil && !late {
		p.fail("%s: %v", x.h.name, err)
	}
}

// later runs an action now or after a while, unless the party was destroyed.
func (p *play) later(f func(), x *party) {
	p.at(p.w.now+time.Duration(p.w.rand.Int64N(int64(20*time.Millisecond)))*time.Duration(p.w.rand.IntN(2)), func() {
		if !x.destroyed {
			f()
		}
	})
}

// answer chooses the reaction to a REQ or a REP.
func (p *play) answer(x *party) {
	w := p.w
	if w.rand.IntN(3) == 0 {
		p.must(x, x.c.Delay(w.now, uint8(8+w.rand.IntN(8))|uint8(w.rand.IntN(2))*DelayOnDuplicate, nil))
	}
	switch w.rand.IntN(10) {
	case 0:
		p.later(func() {
			err := x.c.Reject(w.now, mad.RejectConsumer, nil, nil)
			p.must(x, err)
			if err == nil {
				x.end("rejected by itself")
			}
		}, x)
	case 1:
		p.later(func() { p.destroy(x) }, x)
	case 2: // never answers; the clean-up destroys it
	default:
		p.later(func() {
			if x.active {
				err := x.c.Ready(w.now, nil)
				p.must(x, err)
				if err == nil {
					x.establishedBy(p)
				}
				return
			}
			a := accepting
			a.QPN = uint32(w.rand.IntN(1 << 24))
			p.must(x, x.c.Accept(w.now, &a))
		}, x)
	}
}

func (p *play) destroy(x *party) {
	if !x.destroyed {
		x.end("destroyed")
		x.destroyed = true
		x.c.Destroy(p.w.now)
	}
}

// at runs an action at a given time, between the network's own steps.
func (p *play) at(when time.Duration, f func()) { p.w.later(when, f) }

// run connects, lets the users act, disconnects and destroys.
func (p *play) run() {
	w := p.w
	for range 1 + w.rand.IntN(6) {
		from, to := w.hosts[w.rand.IntN(len(w.hosts))], w.hosts[w.rand.IntN(len(w.hosts))]
		p.at(time.Duration(w.rand.Int64N(int64(100*time.Millisecond))), func() {
			c := &ConnectParams{Service: service, Path: qp.Path{Dst: to.addr}, QPN: uint32(w.rand.IntN(1 << 24)), PacketLifeTime: 10 + uint8(w.rand.IntN(4)),
				RemoteResponseTimeout: 8 + uint8(w.rand.IntN(5)), LocalResponseTimeout: 8 + uint8(w.rand.IntN(5)), Retries: 1 + uint8(w.rand.IntN(15))}
			c.PeerToPeer = w.rand.IntN(3) == 0
			conn, err := from.m.Connect(w.now, c)
			if busy, _ := err.(*Error); busy != nil && busy.Field == "PeerToPeer" {
				return // the user answered before
			} else if err != nil {
				p.fail("%v", err)
				return
			}
			p.parties[conn] = &party{h: from, c: conn, active: true}
		})
	}
	// In some runs a host dies.
	if w.rand.IntN(5) == 0 {
		dies := w.hosts[0]
		p.perfect = false
		p.at(time.Duration(w.rand.Int64N(int64(200*time.Millisecond))), func() { dies.dead = true })
	}
	// Each connection that still exists gets an action.
	for range 4 {
		w.run(w.now + time.Duration(w.rand.Int64N(int64(300*time.Millisecond))))
		for _, h := range w.hosts {
			for _, x := range p.of(h) {
				switch w.rand.IntN(4) {
				case 0:
					p.must(x, x.c.Disconnect(w.now, nil))
				case 1: // the peer may send on its queue pair
					if y := p.peerOf(x); y != nil && y.c.State() == Established {
						p.must(x, x.c.Establish(w.now))
					}
				case 2:
					if w.rand.IntN(3) == 0 {
						p.destroy(x)
					}
				}
			}
		}
	}
	// The longest wait is a delayed one: 16 times 134 ms of service timeout and
	// 268 ms of acknowledge timeout.
	w.run(w.now + 10*time.Second)
	p.judge()
	for _, h := range w.hosts {
		for _, x := range p.of(h) {
			p.destroy(x)
		}
	}
	w.run(w.now + 5*time.Second)
	for _, h := range w.hosts {
		if !h.dead {
			p.clean(h)
		}
	}
}

// of returns the parties of a host that were not destroyed, ordered by communication ID, because
// the order of a map would differ between runs of a seed.
func (p *play) of(h *host) (all []*party) {
	for _, x := range p.parties {
		if x.h == h && !x.destroyed && !h.dead {
			all = append(all, x)
		}
	}
	for i := range all {
		for j := i; j > 0 && all[j].c.LocalID() < all[j-1].c.LocalID(); j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// judge checks which connections are established once no datagrams are in flight.
func (p *play) judge() {
	for _, h := range p.w.hosts {
		for _, x := range p.of(h) {
			switch s := x.c.State(); {
			case x.ended && s != Idle && s != DreqReceived:
				p.fail("%s: ended (%s), and still in state %v", h.name, x.cause, s)
			case !x.ended && x.established && s != Established:
				p.fail("%s: established, and in state %v", h.name, s)
			case !x.ended && !x.established && s != ReqReceived && s != MRAReqSent && s != RepReceived && s != MRARepSent:
				p.fail("%s: neither established nor ended, and in state %v", h.name, s)
			}
			if !x.ended && x.established {
				p.judgePeer(x)
			}
		}
	}
}

// judgePeer requires the other end of a connection to be established as well, unless its host is
// dead or timed out because all its messages were lost.
func (p *play) judgePeer(x *party) {
	y := p.peerOf(x)
	if y == nil {
		p.fail("%s is connected to nobody", x.h.name)
	} else if !y.h.dead && y.c.State() != Established && (y.cause == "" || p.perfect) {
		p.fail("%s is connected, %s is in state %v", x.h.name, y.h.name, y.c.State())
	}
}

// peerOf returns the other end of a connection.
func (p *play) peerOf(x *party) *party {
	for _, y := range p.parties {
		if y != x && y.c.LocalID() == x.c.RemoteID() && y.c.RemoteID() == x.c.LocalID() {
			return y
		}
	}
	return nil
}

// clean fails if a manager still holds anything.
func (p *play) clean(h *host) {
	n := h.m.Count()
	n.Listeners = 0
	if n != (Count{}) || len(h.m.remotes)+len(h.m.qpns)+len(h.m.crossing) != 0 {
		p.fail("%s still holds %+v, and tables of %d, %d, %d", h.name, n, len(h.m.remotes), len(h.m.qpns), len(h.m.crossing))
	}
}
