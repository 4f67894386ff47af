package agent

import (
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// named gives the board from before a Set the parts that the Set may change.
func named(before, after *board, id mad.AttributeID) {
	switch id {
	case smp.AttrPortInfo:
		before.links, before.configs, before.commands = after.links, after.configs, after.commands
	case smp.AttrSwitchInfo:
		before.sw = after.sw
	case smp.AttrSLtoVL:
		before.lanes = after.lanes
	case smp.AttrVLArbitration:
		before.weights = after.weights
	case smp.AttrPKeyTable:
		before.partitions = after.partitions
	case smp.AttrLinearForwarding:
		before.linear = after.linear
	case smp.AttrMulticastForwarding:
		before.multicast = after.multicast
	}
}

// FuzzAgent sends a packet to a switch and an adapter. No packet makes them
// panic, and only a Set or a repress changes the node.
func FuzzAgent(f *testing.F) {
	seed := func(p smp.Packet, qpn uint8) {
		var b [mad.Len]byte
		p.Put(&b)
		f.Add(b[:], uint8(1), qpn, uint64(0))
	}
	for id := range handlers {
		seed(smp.NewRouted(mad.MethodGet, id, 0, 1, 0), 0)
		seed(smp.NewRouted(mad.MethodSet, id, 1, 1, 0), 0)
		p := smp.NewDirected(mad.MethodSet, id, 1, 1, 0, []uint8{1, 2, 3})
		p.HopPointer = 3
		seed(p, 0)
	}
	for _, id := range []mad.AttributeID{1, 0x10, 0x11, 0x12, 0x15, 0x16, 0x18, 0x1b, 0x1c, 0x1d, 0x36} {
		p := smp.NewRouted(mad.MethodGet, id, 0, 1, 0)
		p.Class = mad.ClassPerformance
		seed(p, 1)
		p.Method = mad.MethodSet
		seed(p, 1)
		p.Class, p.ClassVersion = mad.ClassCongestion, 2
		seed(p, 1)
	}
	f.Fuzz(func(t *testing.T, b []byte, port, qpn uint8, seconds uint64) {
		if len(b) < mad.Len {
			return
		}
		m := [mad.Len]byte(b[:mad.Len])
		now := time.Duration(seconds % 1e6)
		for _, a := range []*Agent{New(switchConfig(40), newBoard(40)), New(adapterConfig(2), newBoard(2))} {
			before := a.node.(*board).clone()
			in := Arrival{Port: int(port), SLID: 5, DLID: 6, QPN: uint32(qpn % 2), MAD: &m}
			for _, handle := range []func(time.Duration, *Arrival, *Departure) Outcome{a.Receive, a.Originate} {
				var out Departure
				if o := handle(now, &in, &out); o == Send && out.Port > a.config.NumPorts {
					t.Fatalf("leaves by port %d", out.Port)
				}
			}
			if m != [mad.Len]byte(b[:mad.Len]) {
				t.Fatal("the packet that came has changed")
			}
			after := a.node.(*board)
			if m[3] == mad.MethodSet {
				named(before, after, mad.AttributeID(binary.BigEndian.Uint16(m[16:])))
			}
			if !reflect.DeepEqual(before, after) {
				t.Fatalf("method %#x, attribute %#x changed what it does not name", m[3], m[16:18])
			}
			var out Departure
			a.Trap(now, &out)
			a.Deadline()
		}
	})
}
