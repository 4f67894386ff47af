package live

import (
	"bytes"
	"slices"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ib"
)

// tenants are the programs at a port: one, or several that share it by a key. Each has a lane of
// the queue pair numbers. The first lane is that of the program that manages the port: it has
// queue pairs 0 and 1.
type tenants struct {
	key   []byte
	lanes []*attachment // by lane; nil if the port is free
	over  bool          // the program that manages the port has ended in order, and so its host is not lost
}

// stopTime is how long a program at a shared port may take no packet. After that its packets are
// dropped until it takes some again, because they delay those of the other programs.
const stopTime = 100 * time.Millisecond

// enter gives a lane of the port to a program. It returns the program that is in the way if there
// is one.
func (t *tenants) enter(a *attachment) (held *attachment) {
	s := a.share
	switch {
	case t.lanes == nil:
		*t = tenants{key: s.Key, lanes: make([]*attachment, s.Of)}
	case len(t.key) == 0 || !bytes.Equal(t.key, s.Key) || len(t.lanes) != s.Of:
		return t.any()
	}
	if held := t.lanes[s.Lane]; held != nil {
		return held
	}
	t.lanes[s.Lane] = a
	return nil
}

// leave frees a program's lane.
func (t *tenants) leave(a *attachment) {
	t.lanes[a.share.Lane] = nil
	if t.any() == nil {
		*t = tenants{over: t.over}
	}
}

// any returns the program with the lowest lane, nil if the port is free.
func (t *tenants) any() *attachment {
	for _, a := range t.lanes {
		if a != nil {
			return a
		}
	}
	return nil
}

// manager returns the program with the first lane, or nil.
func (t *tenants) manager() *attachment {
	if len(t.lanes) == 0 {
		return nil
	}
	return t.lanes[0]
}

// of returns the program that a unicast packet is for, or nil.
func (t *tenants) of(packet []byte) *attachment {
	if len(t.lanes) <= 1 {
		return t.manager()
	}
	var h ib.LRH
	if !h.Parse(packet) || len(packet) < h.HeaderLen() {
		return nil
	}
	return t.steer(packet[h.HeaderLen():])
}

// steer returns the program that a packet is for, given from its BTH, or nil.
func (t *tenants) steer(bth []byte) *attachment {
	if len(t.lanes) <= 1 {
		return t.manager()
	}
	return t.lanes[steering.PacketLane(bth, len(t.lanes))]
}

// isGroup reports whether a packet is for a multicast group.
func isGroup(packet []byte) bool {
	var h ib.LRH
	return h.Parse(packet) && h.DLID.Multicast()
}

// spread gives copies of a datagram, from LRH to VCRC, to the programs of a shared port, except
// one. A program without room loses it.
func (t *tenants) spread(frame []byte, except *attachment) {
	packet := frame[:len(frame)-ib.VCRCLen]
	for _, a := range t.lanes {
		if a == nil || a == except || a.ended {
			continue
		}
		if !a.room(packet) {
			a.fabric.drop(a.at, reason.Detail{Reason: reason.FabricFull, Expected: uint64(packet[1] >> 4), Found: uint64(len(packet))})
			continue
		}
		copied := a.fabric.subnet.Pool().Buffer(len(frame))
		copy(copied, frame)
		a.put(0, copied) // does not hold it: there is room
	}
}

// hold notes that there was no room for a packet, and reports whether to keep it. A program that
// shares its port must not delay the packets of others for long.
func (a *attachment) hold(now time.Duration, sl uint8) bool {
	if a.share.Of > 1 || a.fabric.programs[a.at.Node].several() {
		switch {
		case a.full == 0:
			a.limit(now)
		case now-a.since >= stopTime:
			return false
		}
	}
	a.full |= 1 << sl
	return true
}

// limit lets the program delay the packets of others for stopTime from now on.
func (a *attachment) limit(now time.Duration) {
	a.since = now
	if !a.blocked {
		a.blocked = true
		a.fabric.todo.blocked = append(a.fabric.todo.blocked, a)
	}
}

// joined notes that a program has come to a host at which one of another service was alone. If that takes
// nothing, it has stopTime from now on.
func (f *Fabric) joined(now time.Duration, a *attachment) {
	for b := range f.programs[a.at.Node].all(a.at.Port) {
		if b != a && b.full != 0 && b.share.Of == 1 && !b.blocked {
			b.limit(now)
		}
	}
}

// unblock offers packets again for programs that have taken none for stopTime, which drops them.
func (f *Fabric) unblock(now time.Duration) {
	for i := 0; i < len(f.todo.blocked); {
		a := f.todo.blocked[i]
		stopped := a.full != 0 && !a.ended
		if stopped && now-a.since < stopTime {
			i++
			continue
		}
		f.todo.blocked = slices.Delete(f.todo.blocked, i, i+1)
		a.blocked = false
		if stopped {
			f.network.resume(now, a.at) // which may append to f.todo.blocked
		}
	}
}

// unblockAt returns when unblock has something to do.
func (f *Fabric) unblockAt() time.Duration {
	at := never
	for _, a := range f.todo.blocked {
		at = min(at, a.since+stopTime)
	}
	return at
}

// wholePort is the share of a program that has a port to itself.
var wholePort = attach.Share{Of: 1}

// checkShare checks what a program asks for.
func checkShare(s *attach.Share) error {
	if len(s.Key) < attach.MinKey || s.Of < 2 || s.Of > attach.MaxLanes || s.Lane < 0 || s.Lane >= s.Of {
		return reason.Detail{Reason: reason.FabricMessage, Expected: attach.MaxLanes, Found: uint64(s.Lane)}.Err()
	}
	return nil
}
