package relay

import (
	"time"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
	"softrdma/internal/wake"
)

// A Conn is the relay's end of the socket to its own process (see attach.Conn).
type Conn interface {
	Receive() (message []byte, fds unixmsg.Descriptors, err error)
	Send(message []byte, fds ...int) error
	Close() error
}

// A relay joins a Conn and rings to a trunk. The goroutine of run owns it.
type relay struct {
	conn   Conn
	socket *udp.Sockets
	trunk  *trunk.Trunk
	server bool // the process of the fabric

	start   time.Time
	life    wake.Lifetime
	sleeper wake.Sleeper
	bells   *hostmem.Bells
	messages

	end    *fabric.End // nil without rings
	bell   *hostmem.Bell
	ringer *hostmem.Ringer

	receiver
	lanes   [fabric.Levels]lane // service levels, or priorities of an Ethernet
	next    uint8               // service level that pull looks at first
	blocked uint16              // service levels that may not send now
	unheard uint16              // service levels with packets that the own process was not woken for

	connected bool                // the trunk has a link
	cut       bool                // it has lost it
	leaving   bool                // the own process has closed its end
	leaveBy   time.Duration       // when the relay ends then at the latest
	ended     bool                // the trunk's session has ended
	endedAt   time.Duration       // when finished noticed that
	why       reason.Detail       // why it has
	ready     func()              // the trunk has a link
	ending    func(reason.Detail) // called before the connection is closed
	dropped   func(reason.Detail)
	buffer    [trunk.MaxPacket + 1]byte
	frameOut  []byte
}

// A lane is a service level of a relay.
type lane struct {
	batch   fabric.Batch // that is being sent
	at      int          // bytes of it that were sent
	waiting [][]byte     // packets for which the ring had no room
}

// config is what all relays have.
type config struct {
	conn    Conn
	socket  *udp.Sockets
	trunk   trunk.Config // without Port, Use and Supported
	first   []byte       // a packet that came before the socket was there; may be nil
	server  bool
	headers fabric.Headers // of packets
	ready   func()
	ending  func(reason.Detail)
	dropped func(reason.Detail)
}

// newRelay makes a relay, which owns the connection and the socket if it succeeds.
func newRelay(c *config) (*relay, error) {
	r := &relay{conn: c.conn, socket: c.socket, server: c.server, start: time.Now(), ready: c.ready, ending: c.ending, dropped: c.dropped}
	r.headers, r.frameOut = c.headers, make([]byte, 0, packetHeader+c.headers.Longest())
	var err error
	if r.bells, err = hostmem.NewBells(); err != nil {
		return nil, err
	}
	if err := r.sleeper.Init(); err != nil {
		r.bells.Close()
		return nil, err
	}
	r.life.Init(func() {
		r.sleeper.Free()
		r.bells.Close()
	})
	for i := range r.flows {
		r.flows[i].Init()
	}
	r.receiver.packet, r.receiver.message = r.packetCame, r.messageCame
	r.messages.init(r)
	c.trunk.Use, c.trunk.Supported, c.trunk.Port = trunk.Program, trunk.AnyLink, (*port)(r)
	r.trunk = trunk.New(0, c.trunk)
	r.trunk.PortChanged(0, trunk.PortState{Polls: true, Width: trunk.AnyLink.Width, Speed: trunk.AnyLink.Speed})
	if c.first != nil {
		r.trunk.Receive(0, c.first)
	}
	return r, nil
}

func (r *relay) now() time.Duration { return time.Since(r.start) }

func (r *relay) wake() {
	if r.sleeper.Set() && r.life.Enter() {
		r.sleeper.Interrupt()
		r.life.Leave()
	}
}

// run relays until one of the two sides has ended, and returns why. It frees everything.
func (r *relay) run() reason.Detail {
	for {
		now := r.now()
		busy := r.receive(now)
		busy = r.deliver() || busy
		if r.connected {
			busy = r.forward(now) || busy
			busy = r.pull(now) || busy
			r.grant(now)
		}
		r.ring()
		r.send(now)
		if r.finished(now) {
			break
		}
		if !busy {
			r.sleep(now)
		}
	}
	r.finish()
	return r.why
}

// receiveBudget is the number of packets that are read in a round.
const receiveBudget = 128

// receive takes the packets that have come.
func (r *relay) receive(now time.Duration) (some bool) {
	for range receiveBudget {
		n, ok := r.socket.Receive(0, r.buffer[:])
		if !ok || r.ended {
			break
		}
		some = true
		b := r.buffer[:n]
		if d, ok := r.trunk.Refusal(b); ok {
			r.fail(d)
		} else if d := r.trunk.Receive(now, b); d.Reason != reason.None {
			r.dropped(remote(d))
		}
		if r.cut {
			r.fail(reason.Detail{Reason: reason.FabricTrunkMessage, Expected: 1})
		}
	}
	return some
}

// fail ends the session.
func (r *relay) fail(d reason.Detail) {
	if !r.ended {
		r.ended, r.why = true, remote(d)
	}
}

// send sends the packets that are due.
func (r *relay) send(now time.Duration) {
	for b := r.trunk.Next(now); b != nil && !r.ended; b = r.trunk.Next(now) {
		r.socket.Send(0, b)
	}
	r.socket.Flush()
}

// forward sends the messages of the own process, as far as they have credit.
func (r *relay) forward(now time.Duration) (some bool) {
	f := &r.flows[control]
	for r.trunk.Waiting() < mostWaiting {
		m := r.messages.look()
		if m == nil || !f.Room(messageCost(len(m.bytes))) {
			return some
		}
		fds := m.fds
		if m.fds = nil; fds != nil && !r.takeRings(fds) {
			r.fail(reason.Detail{Reason: reason.FabricMessage, Expected: 1, Found: uint64(len(fds))})
			return true
		}
		f.Sent += messageCost(len(m.bytes))
		parts(m.bytes, fds != nil, func(b []byte) { r.transmit(now, b) })
		r.messages.drop()
		some = true
	}
	return some
}

// mostWaiting is how many segments may wait in the trunk before the relay leaves packets in the
// rings.
const mostWaiting = 256

// pullBudget is the number of packets that are read from the rings in a round.
const pullBudget = 128

// pull sends packets of the own process, as far as they have credit.
func (r *relay) pull(now time.Duration) (some bool) {
	r.blocked = 0
	if r.end == nil {
		return false
	}
	budget := pullBudget
	for range fabric.Levels {
		sl := r.next
		r.next = (r.next + 1) % fabric.Levels
		for budget > 0 && !r.ended && r.pullOne(now, sl) {
			some = true
			budget--
		}
	}
	return some
}

// pullOne sends the next packet of a service level, if there is one and it has credit.
func (r *relay) pullOne(now time.Duration, sl uint8) bool {
	x := &r.lanes[sl]
	if len(x.batch.Data) == 0 {
		ok, fault := r.end.Next(sl, &x.batch)
		if fault.Reason != reason.None {
			r.fail(fault)
		}
		if !ok {
			return false
		}
		x.at = 0
	}
	n := min(x.batch.Size, len(x.batch.Data)-x.at)
	size := len(x.batch.Headers) + n
	f := &r.flows[sl]
	if r.trunk.Waiting() >= mostWaiting || !f.Room(trunk.Cost(size)) {
		r.blocked |= 1 << sl
		return false
	}
	b := append(append(append(r.frameOut[:0], packetFrame), x.batch.Headers...), x.batch.Data[x.at:x.at+n]...)
	if x.at += n; x.at == len(x.batch.Data) {
		x.batch.Data = nil
		if r.end.Release(sl) {
			r.ringer.Ring()
		}
	}
	if p := b[packetHeader:]; size < r.headers.Shortest() || size > r.headers.Longest() || r.headers.Level(p) != sl {
		r.dropped(reason.Detail{Reason: reason.FabricLane, Expected: uint64(sl), Found: uint64(n)})
		return true
	}
	f.Sent += trunk.Cost(size)
	r.transmit(now, b)
	return true
}

// transmit gives a frame to the trunk.
func (r *relay) transmit(now time.Duration, b []byte) {
	if d := r.trunk.Send(now, b); d.Reason != reason.None {
		r.fail(d)
	}
}

// grant tells the other end of room.
func (r *relay) grant(now time.Duration) {
	r.flows[control].Taken = r.messages.written()
	for i := range r.flows {
		if limit, ok := r.flows[i].Grant(); ok {
			var b [grantLen]byte
			r.transmit(now, appendGrant(b[:0], i, limit))
		}
	}
}

// packetCame puts a packet into its ring, or keeps it until there is room.
func (r *relay) packetCame(p []byte) {
	if r.end == nil {
		r.fail(reason.Detail{Reason: reason.FabricRemotePacket, Expected: 0, Found: uint64(len(p))})
		return
	}
	if x := &r.lanes[r.headers.Level(p)]; len(x.waiting) > 0 || !r.put(p) {
		x.waiting = append(x.waiting, append([]byte(nil), p...))
	}
}

// put puts a packet into its ring, and reports whether there was room.
func (r *relay) put(p []byte) bool {
	sl := r.headers.Level(p)
	if !r.end.Room(sl, 1, len(p)) || !r.end.PutOne(sl, p) {
		return false
	}
	r.unheard |= 1 << sl
	r.flows[sl].Taken += trunk.Cost(len(p))
	return true
}

// deliver puts the packets that wait for room into the rings, and reports whether there was some.
func (r *relay) deliver() (some bool) {
	for sl := range r.lanes {
		x := &r.lanes[sl]
		n := 0
		for n < len(x.waiting) && r.put(x.waiting[n]) {
			x.waiting[n] = nil
			n++
		}
		if some = some || n > 0; n > 0 {
			if x.waiting = x.waiting[n:]; len(x.waiting) == 0 {
				x.waiting = nil
			}
		}
	}
	return some
}

// ring wakes the own process if it sleeps and got packets.
func (r *relay) ring() {
	wakes := false
	for sl := range uint8(fabric.Levels) {
		if r.unheard&(1<<sl) != 0 {
			wakes = r.end.Sleeps(sl) || wakes
		}
	}
	if r.unheard = 0; wakes {
		r.ringer.Ring()
	}
}

// sleep waits until something is due or one of the two sides has something.
func (r *relay) sleep(now time.Duration) {
	if r.end != nil && !r.end.Arm(r.blocked) {
		return
	}
	until := r.trunk.Deadline()
	if r.leaving || r.ended {
		until = min(until, now+leavePoll)
	}
	wait := time.Duration(-1)
	if until != trunk.Never {
		wait = max(0, until-r.now())
	}
	ready, _ := r.sleeper.Sleep(&r.life, wait, r.bells.FD(), r.socket.FD())
	if ready&1 != 0 {
		r.bells.Rung(func(any) {})
	}
	if r.end != nil {
		r.end.Disarm()
	}
}
