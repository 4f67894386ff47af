package subnet

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A client is a program that asks the administrator, and receives datagrams of other queue
// pairs.
type client struct {
	sink
	answers [][mad.Len]byte
}

func (c *client) MAD(_ time.Duration, in *agent.Arrival) {
	if in.QPN == mad.GSIQPN {
		c.answers = append(c.answers, *in.MAD)
	}
}

func (c *client) Packet(now time.Duration, port int, frame []byte) bool {
	var n ib.Native
	var p ib.Packet
	if n.Parse(frame) == ib.OK && p.Parse(n.Body) == ib.OK && p.DestQPN == mad.GSIQPN && len(p.Payload) == mad.Len {
		c.answers = append(c.answers, [mad.Len]byte(p.Payload))
		return true
	}
	return c.sink.Packet(now, port, frame)
}

// ask sends a query from an adapter to the administrator, parses the record of the answer
// into the query, and returns the status.
func (r *managed) ask(from int, c *client, method uint8, a mad.AttributeID, mask uint64, record sa.Record) uint16 {
	r.t.Helper()
	var d [mad.Len]byte
	h := sa.Header{MAD: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: method,
		Attribute: a, TID: 99}, ComponentMask: mask}
	h.Put(&d)
	record.Put(sa.Data(&d))
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: mad.GSIQPN}, Payload: d[:]}
	p.DETH = ib.DETH{SrcQPN: mad.GSIQPN, QKey: mad.GSIQKey}
	lid, sl := r.Agent(r.ends[from]).Manager(1)
	f := ib.AppendNative(r.Pool().Buffer(0), ib.LRH{SL: sl, Next: ib.LocalBTH, DLID: ib.LID(lid), SLID: ib.LID(r.lid(from))}, nil, &p)
	c.answers = nil
	r.Send(r.now, topology.End{Node: r.ends[from], Port: 1}, f)
	r.Run(r.now + time.Millisecond)
	if len(c.answers) != 1 {
		r.t.Fatalf("%d answers to a query of attribute %#x: drops %v", len(c.answers), uint16(a), r.drops)
	}
	h.Parse(&c.answers[0])
	if h.MAD.TID != 99 || h.MAD.Method&mad.ResponseBit == 0 {
		r.t.Fatalf("answer %+v", h)
	}
	record.Parse(sa.Data(&c.answers[0]))
	return h.MAD.Status
}

func (r *managed) portGID(i int) mad.GID {
	g, _ := r.Agent(r.ends[i]).GID(1, 0)
	return g
}

func TestProgramsJoinAGroupAndItsDataArrives(t *testing.T) {
	r := newManaged(t, "fat-tree:k=4")
	members := []int{1, 5, len(r.ends) - 1}
	clients := make([]*client, len(r.ends))
	for i, n := range r.ends {
		clients[i] = &client{}
		r.Attach(n, clients[i])
	}
	q := sa.PathRecord{SGID: r.portGID(1), DGID: r.portGID(5)}
	if s := r.ask(1, clients[1], mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID, &q); s != mad.StatusOK || q.SLID != r.lid(1) || q.DLID != r.lid(5) {
		t.Fatalf("path: status %#x, %+v", s, q)
	}
	group := mad.GID{0: 0xff, 1: 0x12, 15: 7}
	const mask = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState | sa.MemberQKey | sa.MemberPKey | sa.MemberSL | sa.MemberFlowLabel | sa.MemberTrafficClass
	mlid := uint16(0)
	for n, i := range members {
		g := sa.MCMemberRecord{MGID: group, PortGID: r.portGID(i), QKey: 3, PKey: smp.DefaultPKey, JoinState: sa.JoinFull}
		if n == 0 {
			g.JoinState = sa.JoinSendOnlyFull
		}
		if s := r.ask(i, clients[i], mad.MethodSet, sa.AttrMCMemberRecord, mask, &g); s != mad.StatusOK {
			t.Fatalf("join of adapter %d: status %#x", i, s)
		}
		mlid = g.MLID
	}
	r.settle()
	send := func(from int) {
		payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(from))
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: ib.DestQPNMask}, Payload: payload}
		p.DETH = ib.DETH{SrcQPN: 77, QKey: 3}
		grh := ib.GRH{HopLimit: 1, SGID: r.portGID(from), DGID: group}
		f := ib.AppendNative(r.Pool().Buffer(0), ib.LRH{Next: ib.GlobalGRH, DLID: ib.LID(mlid), SLID: ib.LID(r.lid(from))}, &grh, &p)
		if !r.Send(r.now, topology.End{Node: r.ends[from], Port: 1}, f) {
			t.Fatal("the node has no room for a datagram")
		}
		r.Run(r.now + time.Millisecond)
	}
	send(1) // which only sends
	send(5)
	for i, c := range clients {
		var want []datagram
		switch i {
		case 5:
			want = []datagram{{1, 1}}
		case len(r.ends) - 1:
			want = []datagram{{1, 1}, {1, 5}}
		}
		if !slices.Equal(c.got, want) {
			t.Errorf("adapter %d received %v, expected %v", i, c.got, want)
		}
	}
}
