package trunk

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad/smp"
)

// A training is the state of the link. The end with the greater connection ID leads: it alone
// decides that the link comes up, when it knows that both ports look for a neighbor, and
// numbers the links. The other end tells it the state of its port as long as it has no link.
//
//	leader                                  follower
//	       <-------- state(0, polls) ------
//	connects
//	       --------- up(1, link) --------->
//	                                        connects
//	       <======== frames(1) ===========>
//	                                        its link goes down
//	       <-------- state(1, polls) ------
//	disconnects, connects
//	       --------- up(2, link) --------->
//
// A state with an old number was sent before the follower knew of the latest link, and means
// nothing: the follower answers an up that it cannot follow by a new state. The same holds
// for frames with an old number.
type training struct {
	leads bool
	up    bool
	epoch uint32    // number of the latest link
	far   PortState // of the follower, as the leader knows it
	said  PortState // as the follower has told it
	says  bool      // said is valid for the epoch
}

// AnyLink is the link of trunks whose ports have no widths and speeds of InfiniBand.
var AnyLink = hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR}

// PortChanged tells the trunk the state of its port, after each change.
func (t *Trunk) PortChanged(now time.Duration, p PortState) {
	t.now = now
	t.state = p
	t.follow()
}

// follow acts on the states of the two ports.
func (t *Trunk) follow() {
	s := t.session
	if s == nil || !s.greeted {
		return
	}
	if s.up && !t.state.Up {
		s.up = false
		if s.leads {
			s.sender.write(appendMessage(nil, linkDown, 0, s.epoch))
		}
	}
	switch {
	case s.up:
	case s.leads:
		t.train()
	case !s.says || s.said != t.state:
		s.said, s.says = t.state, true
		s.sender.write(appendState(nil, s.epoch, &t.state))
	}
}

// train brings the link up if both ports look for a neighbor and agree on a link. The leader
// does that.
func (t *Trunk) train() {
	s := t.session
	if !t.state.Polls || !s.far.Polls {
		return
	}
	l, ok := port.Negotiate(enabled(&t.state), enabled(&s.far), t.config.Supported)
	if !ok {
		return
	}
	s.epoch++
	s.up, s.far = true, PortState{}
	s.sender.write(appendLink(nil, s.epoch, &l))
	t.connect(l)
}

// connect connects the port. Until the next PortChanged it counts as up.
func (t *Trunk) connect(l hardware.Link) {
	t.state.Polls, t.state.Up = false, true
	t.config.Port.Connect(t.now, l)
}

// disconnect takes the link down because the other end has done so.
func (t *Trunk) disconnect() {
	t.session.up = false
	t.state.Up = false
	t.config.Port.Disconnect(t.now)
}

func enabled(p *PortState) *hardware.PortConfig {
	return &hardware.PortConfig{Width: p.Width, Speed: p.Speed, ExtSpeed: p.ExtSpeed}
}

// receiveState takes the state of the follower's port, which has no link.
func (t *Trunk) receiveState(epoch uint32, b []byte) reason.Detail {
	s := t.session
	if !s.leads || len(b) != 1+linkLen || b[0] > 1 {
		return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: 1 + linkLen, Found: uint64(len(b))}
	}
	if epoch != s.epoch {
		return reason.Detail{}
	}
	s.far = PortState{Polls: b[0] == 1, Width: smp.Width(b[1]), Speed: smp.Speed(b[2]), ExtSpeed: smp.ExtSpeed(b[3])}
	if s.up {
		t.disconnect()
		return reason.Detail{} // PortChanged trains again
	}
	t.train()
	return reason.Detail{}
}

// receiveUp takes the leader's decision that the link comes up.
func (t *Trunk) receiveUp(epoch uint32, b []byte) reason.Detail {
	s := t.session
	if s.leads || s.up || len(b) != linkLen || epoch != s.epoch+1 {
		return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: uint64(s.epoch + 1), Found: uint64(epoch)}
	}
	s.epoch, s.says = epoch, false
	far := PortState{Width: smp.Width(b[0]), Speed: smp.Speed(b[1]), ExtSpeed: smp.ExtSpeed(b[2])}
	l, ok := port.Negotiate(enabled(&t.state), enabled(&far), t.config.Supported)
	if !ok || !t.state.Polls {
		t.follow()
		return reason.Detail{}
	}
	s.up = true
	t.connect(l)
	return reason.Detail{}
}

// receiveDown takes the leader's message that its port has lost the link.
func (t *Trunk) receiveDown(epoch uint32, b []byte) reason.Detail {
	s := t.session
	if s.leads || len(b) != 0 || epoch != s.epoch {
		return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: uint64(s.epoch), Found: uint64(epoch)}
	}
	if s.up {
		t.disconnect()
	}
	return reason.Detail{}
}
