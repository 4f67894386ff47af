package verbs_test

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/verbs"
)

const grh = 40 // the area before a datagram's payload

// readyUD takes a UD queue pair to RTS.
func (s *side) readyUD(t testing.TB, qkey uint32) {
	t.Helper()
	for _, err := range []error{s.qp.ToInit(verbs.InitAttr{QKey: qkey}), s.qp.ToRTR(verbs.RTRAttr{}), s.qp.ToRTS(verbs.RTSAttr{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *side) recv(t testing.TB, id uint64, off, n int) {
	t.Helper()
	if err := s.qp.PostRecv(verbs.RecvWR{WRID: id, SGL: []verbs.SGE{s.mr.SGE(off, n)}}); err != nil {
		t.Fatal(err)
	}
}

func TestDatagramArrivesAfterGRHArea(t *testing.T) {
	if !*overFabric {
		needUDP(t)
	}
	a, b := newSide(t, addrA, 8192, verbs.UD), newSide(t, addrB, 8192, verbs.UD)
	a.readyUD(t, 0x11)
	b.readyUD(t, 0x22)
	to := vector(b.dev)
	to.HopLimit = 9
	ah, err := a.pd.CreateAH(to)
	if err != nil {
		t.Fatal(err)
	}
	b.recv(t, 1, 0, grh+100)
	copy(a.buf, "a datagram")
	send := verbs.SendWR{Op: verbs.OpSendImm, Imm: 77, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 10)}, AH: ah, RemoteQPN: b.qp.Number(), RemoteQKey: 0x21}
	a.post(t, send) // wrong Q_Key: dropped and counted, and the receive stays
	a.ok(t, verbs.WCSend)
	send.RemoteQKey = 0x22
	a.post(t, send)
	a.ok(t, verbs.WCSend)
	wc := b.ok(t, verbs.WCRecv)
	if wc.ByteLen != grh+10 || wc.SrcQPN != a.qp.Number() || wc.Imm != 77 || wc.Flags&verbs.WCGRH == 0 {
		t.Fatalf("completion %+v", wc)
	}
	if string(b.buf[grh:grh+10]) != "a datagram" {
		t.Fatalf("received %q", b.buf[grh:grh+10])
	}
	// RoCE v2 places an IPv4 header in the area's last 20 bytes.
	h := b.buf[20:40]
	if !*overFabric && (h[0] != 0x45 || h[8] != 9 || !bytes.Equal(h[12:20], []byte{127, 7, 0, 1, 127, 7, 0, 2})) {
		t.Fatalf("header in the GRH area: % x", h)
	}
	from, dgid := a.dev.GID(), b.dev.GID()
	if g := b.buf[:40]; *overFabric && (g[0]>>4 != 6 || g[7] != 9 || !bytes.Equal(g[8:24], from[:]) || !bytes.Equal(g[24:], dgid[:])) {
		t.Fatalf("GRH: % x", g)
	}
	if n := counter(b.dev, "PACKET_QKEY"); n != 1 {
		t.Fatalf("PACKET_QKEY counted %d times, expected 1", n)
	}
	if err := ah.Destroy(); err != nil {
		t.Fatal(err)
	}
}

func TestMulticastReachesEveryAttachedQP(t *testing.T) {
	a, b := newSide(t, addrA, 8192, verbs.UD), newSide(t, addrB, 8192, verbs.UD)
	a.readyUD(t, 5)
	b.readyUD(t, 5)
	group := netip.MustParseAddr("239.10.20.30")
	to := verbs.AddressVector{DGID: verbs.GIDFrom(group)}
	if *overFabric {
		to = joinGroup(t, 5, a, b)
		group = to.DGID.Addr()
	}
	if err := b.qp.AttachMulticast(group); err != nil {
		t.Fatal(err)
	}
	ah, err := a.pd.CreateAH(to)
	if err != nil {
		t.Fatal(err)
	}
	b.recv(t, 1, 0, 1000)
	copy(a.buf, "to all")
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 6)}, AH: ah, RemoteQPN: 0xffffff, RemoteQKey: 5})
	a.ok(t, verbs.WCSend)
	if wc := b.ok(t, verbs.WCRecv); wc.ByteLen != grh+6 || string(b.buf[grh:grh+6]) != "to all" {
		t.Fatalf("received %+v %q", wc, b.buf[grh:grh+6])
	}
	if err := b.qp.DetachMulticast(group); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.DetachMulticast(group); err == nil {
		t.Fatal("detached twice")
	}
	if err := b.qp.AttachMulticast(netip.MustParseAddr("10.0.0.1")); err == nil {
		t.Fatal("attached to a unicast address")
	}
}

// counter returns how often a device gave a reason. A daemon runs in this process, and its
// counters stand for the devices that it serves.
func counter(d *verbs.Device, name string) uint64 {
	for n, c := range d.Counters() {
		if n == name {
			return c
		}
	}
	return 0
}
