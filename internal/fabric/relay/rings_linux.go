package relay

import (
	"errors"
	"time"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// takeRings opens what came with the message of the own process that makes the rings: the
// program's bell, or the fabric's memory and bell.
func (r *relay) takeRings(fds unixmsg.Descriptors) bool {
	defer fds.Close()
	var err error
	switch {
	case r.ringer != nil || r.server != (len(fds) == 2) || r.server && r.bell == nil:
		return false
	case r.server:
		if r.end, err = fabric.OpenEnd(fds[0], r.headers); err != nil {
			r.end = nil
			return false
		}
	}
	if r.ringer, err = hostmem.OpenRinger(fds.Take(len(fds)-1), false); err != nil {
		r.ringer = nil
	}
	return err == nil
}

// messageCame gives a message of the other process to the own one.
func (r *relay) messageCame(m []byte, rings bool) {
	var fds []int
	var after func()
	if rings {
		var err error
		if fds, after, err = r.makeRings(); err != nil {
			r.fail(reason.Detail{Reason: reason.FabricRemotePacket, Expected: 1, Found: uint64(len(m))})
			return
		}
	}
	r.messages.write(m, fds, after)
}

// makeRings makes what goes to the own process with the message that makes the rings: the bell
// that the fabric rings, or the program's memory and bell.
func (r *relay) makeRings() (fds []int, after func(), err error) {
	if r.bell != nil || !r.server && r.ringer == nil {
		return nil, nil, errors.New("rings made already, or not asked for")
	}
	if r.bell, err = r.bells.Add(nil); err != nil {
		return nil, nil, err
	}
	if r.server {
		return []int{r.bell.FD()}, nil, nil
	}
	if r.end, err = fabric.NewEnd(r.headers); err != nil {
		r.end = nil
		return nil, nil, err
	}
	end := r.end
	return []int{end.FD(), r.bell.FD()}, func() { _ = end.CloseFD() }, nil
}

// A port is what the relay's trunk is plugged into.
type port relay

var _ trunk.Port = (*port)(nil)

// Nodes implements trunk.Port.
func (p *port) Nodes(_ *trunk.Peer, guids []uint64) (d reason.Detail) {
	if len(guids) > 0 {
		d = reason.Detail{Reason: reason.FabricRemotePacket, Found: uint64(len(guids))}
	}
	return d
}

// Connect implements trunk.Port.
func (p *port) Connect(time.Duration, hardware.Link) {
	p.connected = true
	p.ready()
}

// Disconnect implements trunk.Port. The link goes down only with the session, unless the other end
// has left the protocol.
func (p *port) Disconnect(time.Duration) { p.cut = true }

// Frame implements trunk.Port.
func (p *port) Frame(_ time.Duration, b []byte) {
	if r := (*relay)(p); !r.ended {
		if d := r.receiver.frame(b); d.Reason != reason.None {
			r.fail(d)
		}
	}
}

// Ended implements trunk.Port.
func (p *port) Ended(d reason.Detail) { (*relay)(p).fail(d) }

// Times of the end.
const (
	leavePoll  = time.Millisecond
	leaveTime  = time.Second           // to send what the own process left, or give it its messages
	packetTime = 50 * time.Millisecond // to give it its packets
	farewells  = 3
)

// finished reports whether nothing is left to do.
func (r *relay) finished(now time.Duration) bool {
	if r.ended {
		if r.endedAt == 0 {
			r.endedAt = max(1, now)
		}
		packets, messages := r.waits()
		return (!packets || now >= r.endedAt+packetTime) && (!messages || now >= r.endedAt+leaveTime)
	}
	if !r.leaving {
		if !r.messages.gone.Load() {
			return false
		}
		r.leaving, r.leaveBy = true, now+leaveTime
	}
	return now >= r.leaveBy || !r.connected || r.messages.look() == nil && r.drained() && r.trunk.Waiting() == 0
}

// waits reports whether packets and messages of the other process have not reached the own one.
func (r *relay) waits() (packets, messages bool) {
	for i := range r.lanes {
		packets = packets || len(r.lanes[i].waiting) > 0
	}
	return packets, r.messages.writing()
}

// drained reports whether the rings have nothing to send.
func (r *relay) drained() bool {
	if r.end == nil {
		return true
	}
	for i := range r.lanes {
		if len(r.lanes[i].batch.Data) > 0 {
			return false
		}
	}
	if !r.end.Arm(0) {
		return false
	}
	r.end.Disarm()
	return true
}

// finish ends the session and frees everything.
func (r *relay) finish() {
	now := r.now()
	r.trunk.Close(now)
	if b := r.trunk.Next(now); b != nil {
		for range farewells { // the network may lose some
			r.socket.Send(0, b)
		}
		r.socket.Flush()
	}
	r.ending(r.why)
	r.messages.end()
	r.socket.Close()
	if r.end != nil {
		_ = r.end.Close()
	}
	if r.ringer != nil {
		_ = r.ringer.Close()
	}
	r.life.Close(r.sleeper.Interrupt)
}

// reasons are those of a trunk as an attachment names them.
var reasons = map[reason.Reason]reason.Reason{
	reason.FabricTrunkVersion: reason.FabricRemoteVersion,
	reason.FabricTrunkSecret:  reason.FabricRemoteSecret,
	reason.FabricTrunkSilent:  reason.FabricRemoteSilent,
	reason.FabricTrunkSession: reason.FabricRemoteUnknown,
	reason.FabricTrunkClosed:  reason.FabricRemoteClosed,
	reason.FabricTrunkPacket:  reason.FabricRemotePacket,
	reason.FabricTrunkMessage: reason.FabricRemotePacket,
	reason.FabricTrunkOverrun: reason.FabricRemotePacket,
	reason.FabricTrunkNetwork: reason.FabricRemotePacket,
}

// remote is a detail of a trunk as an attachment names it.
func remote(d reason.Detail) reason.Detail {
	if r, ok := reasons[d.Reason]; ok {
		d.Reason = r
	}
	return d
}
