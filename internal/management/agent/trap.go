package agent

import (
	"encoding/binary"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// Numbers of the traps that nodes send (IBTA 14.2.5.1).
const (
	TrapLinkState      = 128
	TrapLinkIntegrity  = 129
	TrapBufferOverrun  = 130
	TrapFlowControl    = 131
	TrapCapabilityMask = 144
	TrapMKey           = 256
	TrapPKey           = 257
	TrapQKey           = 258
	TrapSwitchPKey     = 259
)

// The kinds of traps, of each of which one may be pending.
const (
	linkState = iota
	capabilityMask
	mkeyViolation
	pkeyViolation
	qkeyViolation
	switchPKeyViolation
	linkErrors // and one for each hardware.LinkError
	trapKinds  = linkErrors + int(hardware.LinkErrors)
)

// trapRepeats is how often a trap is sent if no manager represses it. A manager that
// comes later sees PortStateChange and the counters of violations.
const trapRepeats = 8

// A trap is sent at most once in each SubnetTimeout until a manager represses
// it (IBTA 13.4.9).
type trap struct {
	left   int           // how often it is to be sent
	next   time.Duration // earliest time
	tid    uint64
	notice mad.Notice
}

// traps is the part of the subnet management agent that sends by itself.
type traps struct {
	*settings
	tid   uint64 // of the last trap
	quiet bool   // no trap is pending; deadline sets it
}

// raise makes a trap pending. A newer event of the kind replaces an older one.
// Without a manager nothing is sent: a later one reads PortStateChange
// and the counters of violations.
func (a *traps) raise(now time.Duration, n, kind int, notice mad.Notice) {
	e := &a.ends[n]
	if e.lid == 0 || e.smLID == 0 {
		return
	}
	t := &e.traps[kind]
	a.tid++
	notice.Generic, notice.Producer = true, mad.ProducerAdapter
	if a.isSwitch() {
		notice.Producer = mad.ProducerSwitch
	}
	t.left, t.tid, t.notice = trapRepeats, a.tid, notice
	a.quiet = false
	t.next = max(t.next, now)
}

// canTrap reports whether an end port may send traps.
func (a *traps) canTrap(n int) bool {
	return a.isSwitch() || a.node.Link(n).State == smp.PortActive
}

// deadline returns when Trap has something to send.
func (a *traps) deadline() time.Duration {
	if a.quiet {
		return Never
	}
	first := Never
	a.quiet = true
	for n := range a.ends {
		if !a.isSwitch() && n == 0 {
			continue
		}
		for i := range a.ends[n].traps {
			if t := &a.ends[n].traps[i]; t.left > 0 {
				a.quiet = false
				if a.canTrap(n) {
					first = min(first, t.next)
				}
			}
		}
	}
	return first
}

// Trap returns the next trap that is due, and reports whether there is one. The
// outcome is Local for a manager at the same port.
func (a *traps) Trap(now time.Duration, out *Departure) (Outcome, bool) {
	for n := range a.ends {
		if !a.isSwitch() && n == 0 || !a.canTrap(n) {
			continue
		}
		e := &a.ends[n]
		for i := range e.traps {
			t := &e.traps[i]
			if t.left == 0 || t.next > now {
				continue
			}
			t.left--
			t.next = now + interval(e.subnetTimeout)
			t.notice.IssuerLID = e.lid
			p := smp.NewRouted(mad.MethodTrap, mad.AttrNotice, 0, t.tid, 0)
			t.notice.PutManagement(&p.Data)
			*out = Departure{SLID: e.lid, DLID: e.smLID, SL: e.smSL}
			if !a.isSwitch() {
				out.Port = n
			}
			p.Put(&out.MAD)
			if e.owns(e.smLID) {
				return Local, true
			}
			return Send, true
		}
	}
	return Discard, false
}

// repress ends a trap that a manager has received, and reports whether the trap was the
// agent's. Programs of the node send traps, too.
func (a *traps) repress(in *Arrival, p *smp.Packet) (own bool) {
	var n mad.Notice
	n.ParseManagement(&p.Data)
	e := &a.ends[a.endPort(in.Port)]
	for i := range e.traps {
		t := &e.traps[i]
		own = own || t.tid == p.TID && t.notice.Number == n.Number
		// A newer event of the kind has other details, and is still to be reported.
		if t.notice.Number == n.Number && t.notice.Details == n.Details {
			t.left = 0
		}
	}
	return own
}

// LinkChanged tells the agent that the state of a port may have changed. A
// change to or from down makes a switch report it (IBTA 14.2.5.4 and trap 128).
func (a *traps) LinkChanged(now time.Duration, n int) {
	if !a.valid(n) || n == 0 {
		return
	}
	q := &a.ports[n]
	old := q.state
	q.state = a.node.Link(n).State
	if !a.isSwitch() || (old == smp.PortDown) == (q.state == smp.PortDown) {
		return
	}
	a.sw.PortStateChange = true
	notice := mad.Notice{Type: mad.NoticeUrgent, Number: TrapLinkState}
	binary.BigEndian.PutUint16(notice.Details[0:], a.ends[0].lid)
	a.raise(now, 0, linkState, notice)
}

// LinkFailed reports an error of a link, which stays up.
func (a *traps) LinkFailed(now time.Duration, n int, e hardware.LinkError) {
	if !a.valid(n) || n == 0 || e >= hardware.LinkErrors {
		return
	}
	notice := mad.Notice{Type: mad.NoticeUrgent, Number: TrapLinkIntegrity + uint16(e)}
	binary.BigEndian.PutUint16(notice.Details[2:], a.ends[a.endPort(n)].lid)
	notice.Details[4] = uint8(n)
	a.raise(now, a.endPort(n), linkErrors+int(e), notice)
}

// SetCapability sets or clears bits of an end port's capability mask, as when a
// manager starts at the port.
func (a *traps) SetCapability(now time.Duration, n int, bits smp.Capability, on bool) {
	e := &a.ends[a.endPort(n)]
	old := e.capability
	e.capability &^= bits
	if on {
		e.capability |= bits
	}
	if e.capability == old {
		return
	}
	notice := mad.Notice{Type: mad.NoticeInformational, Number: TrapCapabilityMask}
	binary.BigEndian.PutUint16(notice.Details[2:], e.lid)
	binary.BigEndian.PutUint32(notice.Details[6:], uint32(e.capability))
	a.raise(now, a.endPort(n), capabilityMask, notice)
}

// mkeyTrap reports a packet with a wrong management key.
func (a *traps) mkeyTrap(now time.Duration, n int, in *Arrival, p *smp.Packet) {
	notice := mad.Notice{Type: mad.NoticeSecurity, Number: TrapMKey}
	d := notice.Details[:]
	binary.BigEndian.PutUint16(d[2:], in.SLID)
	d[6] = p.Method
	binary.BigEndian.PutUint16(d[8:], uint16(p.Attribute))
	binary.BigEndian.PutUint32(d[10:], p.Modifier)
	binary.BigEndian.PutUint64(d[14:], p.MKey)
	if p.Directed() {
		binary.BigEndian.PutUint16(d[4:], p.DrSLID)
		hops := min(p.HopCount, smp.MaxHops)
		d[23] = 0x80 | min(hops, 30)
		if hops > 30 { // the return path is truncated
			d[23] |= 0x40
		}
		copy(d[24:], p.Return[1:1+min(hops, 30)])
	}
	a.raise(now, n, mkeyViolation, notice)
}

// A Violation is a data packet with a P_Key or Q_Key that the port refuses.
type Violation struct {
	SLID, DLID          uint16
	SL                  uint8
	SourceQPN           uint32
	DestinationQPN      uint32
	Key                 uint32
	Global              bool // the packet has a GRH
	Source, Destination mad.GID
}

// PKeyViolation counts and reports a packet of a partition that a port is not in.
func (a *traps) PKeyViolation(now time.Duration, n int, v *Violation) {
	if !a.valid(n) {
		return
	}
	if !a.isSwitch() || n == 0 {
		e := &a.ends[n]
		increment(&e.pkeyViolations)
		a.raise(now, n, pkeyViolation, v.notice(TrapPKey))
		return
	}
	increment(&a.ports[n].pkeyViolations)
	notice := mad.Notice{Type: mad.NoticeSecurity, Number: TrapSwitchPKey}
	d := notice.Details[:]
	flags := uint16(0x7e00) // valid: LIDs, P_Key, SL and both QPNs
	if v.Global {
		flags |= 0x0180
	}
	binary.BigEndian.PutUint16(d[0:], flags)
	binary.BigEndian.PutUint16(d[6:], uint16(v.Key))
	v.put(d, 8)
	binary.BigEndian.PutUint16(d[48:], a.ends[0].lid)
	d[50] = uint8(n)
	a.raise(now, 0, switchPKeyViolation, notice)
}

// QKeyViolation counts and reports a datagram with a wrong Q_Key.
func (a *traps) QKeyViolation(now time.Duration, n int, v *Violation) {
	if !a.valid(n) || a.isSwitch() && n != 0 {
		return
	}
	increment(&a.ends[n].qkeyViolations)
	a.raise(now, n, qkeyViolation, v.notice(TrapQKey))
}

func (v *Violation) notice(number uint16) mad.Notice {
	n := mad.Notice{Type: mad.NoticeSecurity, Number: number}
	binary.BigEndian.PutUint32(n.Details[6:], v.Key)
	v.put(n.Details[:], 10)
	return n
}

// put writes the addresses: LIDs from byte 2 on, queue pairs and GIDs from a
// byte on.
func (v *Violation) put(d []byte, at int) {
	binary.BigEndian.PutUint16(d[2:], v.SLID)
	binary.BigEndian.PutUint16(d[4:], v.DLID)
	binary.BigEndian.PutUint32(d[at:], uint32(v.SL&0xf)<<28|v.SourceQPN&0xffffff)
	binary.BigEndian.PutUint32(d[at+4:], v.DestinationQPN&0xffffff)
	if v.Global {
		copy(d[at+8:], v.Source[:])
		copy(d[at+24:], v.Destination[:])
	}
}

func gid(prefix, guid uint64) (g mad.GID) {
	binary.BigEndian.PutUint64(g[:], prefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}
