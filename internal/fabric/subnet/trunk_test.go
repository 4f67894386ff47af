package subnet

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A stub is a trunk that keeps what it gets.
type stub struct {
	frames  [][]byte
	changes int
}

func (t *stub) Send(frame []byte) { t.frames = append(t.frames, slices.Clone(frame)) }
func (t *stub) Changed()          { t.changes++ }
func (t *stub) String() string    { return "stub" }

// trunkAt is the free port of the switch of newTrunkRig.
var trunkAt = topology.End{Node: 0, Port: 3}

func newTrunkRig(t *testing.T) (*rig, *stub) {
	r, s := newRig(t, "star:2,spare=1"), new(stub)
	r.SetTrunk(r.now, trunkAt, s)
	r.Run(r.now + time.Microsecond)
	r.Join(r.now, trunkAt, r.Supported(0))
	r.Run(r.now + time.Millisecond)
	return r, s
}

func TestTrunkCarriesManagementBothWays(t *testing.T) {
	r, s := newTrunkRig(t)
	if r.Node(0).Link(3).State != smp.PortInit || s.changes == 0 {
		t.Fatalf("link %+v, %d changes", r.Node(0).Link(3), s.changes)
	}
	s.frames = nil
	out := agent.Departure{Port: 1, DLID: smp.PermissiveLID, SLID: smp.PermissiveLID}
	ask := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 8, 0, []uint8{1, 3})
	ask.Put(&out.MAD)
	r.SendMAD(r.now, r.adapters()[0], &out)
	r.Run(r.now + time.Millisecond)
	if len(s.frames) != 1 || len(s.frames[0]) < mad.Len {
		t.Fatalf("%d frames left by the trunk, expected 1", len(s.frames))
	}
	r.Cut(trunkAt)
	r.Run(r.now + time.Millisecond)
	if r.Node(0).Link(3).Physical == smp.PhysicalLinkUp || r.Polls(trunkAt) {
		t.Error("the link of a trunk that is cut is up")
	}
	r.Repair(trunkAt)
	r.Run(r.now + time.Millisecond)
	if !r.Polls(trunkAt) {
		t.Error("the port does not look for a neighbor")
	}
}

// FuzzTrunkFrames lets any frames arrive by a trunk.
func FuzzTrunkFrames(f *testing.F) {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: 1}, Payload: make([]byte, mad.Len)}
	f.Add(ib.AppendNative(nil, ib.LRH{Next: ib.LocalBTH, DLID: 2, SLID: 1}, nil, &p))
	f.Add(ib.AppendNative(nil, ib.LRH{VL: ib.ManagementVL, Next: ib.LocalBTH, DLID: ib.PermissiveLID, SLID: ib.PermissiveLID}, nil, &p))
	grant := make([]byte, ib.FlowControlLen)
	(&ib.FlowControl{Limit: 100}).Put(grant)
	f.Add(grant)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > ib.MaxNativeLen {
			return
		}
		for _, active := range []bool{false, true} {
			r, _ := newTrunkRig(t)
			if active {
				r.Node(0).SetLink(3, hardware.LinkArm)
				r.Node(0).SetLink(3, hardware.LinkActivate)
			}
			for range 3 {
				r.Arrive(r.now, trunkAt, append(r.Pool().Buffer(len(frame))[:0], frame...))
				r.Run(r.now + time.Millisecond)
			}
			if d := r.Deadline(); d < r.now {
				t.Errorf("deadline %v at %v", d, r.now)
			}
			if n := r.Node(0).Link(3).Physical; n != smp.PhysicalLinkUp && n != smp.PhysicalPolling && n != smp.PhysicalDisabled && n != smp.PhysicalSleep {
				t.Errorf("state %v", n)
			}
		}
	})
}
