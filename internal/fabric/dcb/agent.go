package dcb

import (
	"slices"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// Settings are what the two ends of a link agree on by DCBX (802.1Q clause 38).
type Settings struct {
	Selection    ethernet.ETS
	PFC          ethernet.PFC
	Applications []ethernet.Application

	// TakeApplications makes a port use the neighbor's application priorities, if it has some, and
	// say so. LLDP has no field for it. If the neighbor takes what the port recommends for ETS, the
	// end with the lower address keeps its own.
	TakeApplications bool
}

// Times of LLDP (802.1AB 9.2.5).
const (
	helloInterval = 30 * Second
	fastInterval  = Second
	fastCount     = 4 // frames at the fast interval after a new neighbor has come
	holdSeconds   = 121
	maxCredit     = 5 // frames at once; one more each second
)

// An Agent speaks LLDP for a port: it says what the port is set to, and decides what is in force
// from what the neighbor says.
type Agent struct {
	frame    ethernet.LLDP
	local    Settings
	force    Settings
	neighbor *ethernet.LLDP // nil if none is known
	expires  Time
	next     Time
	fast     int
	credit   int  // frames that may be sent now
	credited Time // when the credit grew last
}

// NewAgent returns the agent of a port with this address and name.
func NewAgent(address Address, port, system string, local Settings) *Agent {
	m := address.MAC()
	a := &Agent{frame: ethernet.LLDP{Src: m, Chassis: ethernet.ID{Kind: ethernet.ChassisMAC, Value: string(m[:])},
		Port: ethernet.ID{Kind: ethernet.PortName, Value: port}, SystemName: system}, expires: Never, credit: maxCredit}
	a.Set(0, local)
	return a
}

// Set changes the port's own settings, of which the neighbor learns soon.
func (a *Agent) Set(now Time, local Settings) {
	a.local = local
	a.next = now
	a.decide()
}

// Deadline returns when to call Next.
func (a *Agent) Deadline() Time { return min(a.next, a.expires) }

// Next returns the frame that is to be sent now, nil if there is none. It keeps the frame, which
// the caller does not change.
func (a *Agent) Next(now Time) *ethernet.LLDP {
	if a.expires <= now {
		a.forget()
	}
	if now < a.next || !a.spend(now) {
		return nil
	}
	a.next = now + helloInterval
	if a.fast > 0 {
		a.fast--
		a.next = now + fastInterval
	}
	f := &a.frame
	f.TTL, f.ETS, f.Recommendation, f.PFC, f.Applications = holdSeconds, &a.local.Selection, &a.local.Selection, &a.local.PFC, a.force.Applications
	return f
}

// spend takes the credit of a frame (802.1AB 9.2.5: txCredit). Without credit it puts the frame off.
func (a *Agent) spend(now Time) bool {
	grown := (now - a.credited) / Second
	a.credited += grown * Second
	a.credit = int(min(Time(a.credit)+grown, maxCredit))
	if a.credit == 0 {
		a.next = a.credited + Second
		return false
	}
	a.credit--
	return true
}

// Receive takes a frame of the neighbor. It keeps it, and the caller does not change it.
func (a *Agent) Receive(now Time, l *ethernet.LLDP) {
	if l.TTL == 0 { // 802.1AB 9.2.7.7.1: the neighbor leaves
		a.forget()
		return
	}
	if a.neighbor == nil || a.neighbor.Src != l.Src {
		a.fast, a.next = fastCount, now
	}
	a.neighbor, a.expires = l, now+Time(l.TTL)*Second
	before := a.force.Applications
	if a.decide(); !slices.Equal(before, a.force.Applications) {
		a.next = now
	}
}

func (a *Agent) forget() {
	a.neighbor, a.expires = nil, Never
	a.decide()
}

// Neighbor returns the last frame of the neighbor, nil if there is none.
func (a *Agent) Neighbor() *ethernet.LLDP { return a.neighbor }

// InForce returns the settings that the port is to use.
func (a *Agent) InForce() Settings { return a.force }

// first reports whether the port's PFC settings count when both ends are willing: those of the
// lower address do (802.1Q 38.4.2).
func (a *Agent) first() bool { return AddressOf(a.frame.Src) < AddressOf(a.neighbor.Src) }

// decide sets what is in force.
func (a *Agent) decide() {
	a.force = a.local
	n := a.neighbor
	if n == nil {
		return
	}
	if a.local.Selection.Willing && n.Recommendation != nil { // 802.1Q 38.4.1: asymmetric
		a.force.Selection = *n.Recommendation
	}
	if p := n.PFC; p != nil && a.local.PFC.Willing && !(p.Willing && a.first()) {
		a.force.PFC.Enable = p.Enable
	}
	if a.local.TakeApplications && len(n.Applications) > 0 && !(n.ETS != nil && n.ETS.Willing && a.first()) {
		a.force.Applications = n.Applications
	}
}

// Mismatches returns what the two ends have in force that does not fit together. The other end
// finds the same. Settings that the neighbor does not speak of fit.
func (a *Agent) Mismatches() (all []reason.Detail) {
	n := a.neighbor
	if n == nil {
		return nil
	}
	if p := n.PFC; p != nil {
		theirs := p.Enable
		if p.Willing && !(a.local.PFC.Willing && !a.first()) {
			theirs = a.local.PFC.Enable
		}
		if ours := a.force.PFC.Enable; ours != theirs {
			all = append(all, reason.Detail{Reason: reason.EthernetMismatchPFC, Expected: uint64(ours), Found: uint64(theirs)})
		}
	}
	if e := n.ETS; e != nil {
		theirs := *e
		if e.Willing {
			theirs = a.local.Selection
		}
		for i := range uint8(ethernet.Priorities) {
			if ours := share(&a.force.Selection, i); ours != share(&theirs, i) {
				all = append(all, reason.Detail{Reason: reason.EthernetMismatchETS, Expected: uint64(ours), Found: uint64(i)})
				break
			}
		}
	}
	for _, o := range a.force.Applications {
		i := slices.IndexFunc(n.Applications, func(t ethernet.Application) bool { return t.Selector == o.Selector && t.Number == o.Number })
		if i >= 0 && n.Applications[i].Priority != o.Priority {
			all = append(all, reason.Detail{Reason: reason.EthernetMismatchApplication, Expected: uint64(o.Priority), Found: uint64(n.Applications[i].Priority)})
		}
	}
	return all
}

// share returns the percentage of a priority's class, above 100 for a strict one.
func share(e *ethernet.ETS, priority uint8) uint8 {
	c := e.Class[priority] % ethernet.Classes
	if e.Algorithm[c] == ethernet.Strict {
		return 101
	}
	return e.Percent[c]
}

// Apply returns a port's configuration with the settings that are in force.
func (a *Agent) Apply(c PortConfig) PortConfig {
	c.Selection, c.Lossless = a.force.Selection, a.force.PFC.Enable
	if c.Pause == NoPause && c.Lossless != 0 {
		c.Pause = ByClass
	}
	return c
}

// Priority returns the priority of an application's frames, and whether the settings name it.
func (s *Settings) Priority(by ethernet.Selector, number uint16) (priority uint8, ok bool) {
	for _, a := range s.Applications {
		if a.Number == number && (a.Selector == by || a.Selector == ethernet.ByPort && (by == ethernet.ByUDP || by == ethernet.ByTCP)) {
			return a.Priority, true
		}
	}
	return 0, false
}
