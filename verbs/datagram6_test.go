package verbs_test

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/verbs"
)

// Datagrams over IPv6, on devices with different ports: every length up to the MTU, with the
// IPv6 header in the GRH area, and an answer to the address found there.
func TestDatagramOverIPv6(t *testing.T) {
	e := ends{a: "[::1]:4810", b: "[::1]:4811", qp: verbs.QPConfig{Type: verbs.UD, MaxInline: 64}}
	a, b := e.open(t)
	a.readyUD(t, 0x11)
	b.readyUD(t, 0x22)
	to, err := a.pd.CreateAH(verbs.AddressVector{DGID: b.dev.GID(), UDPPort: b.dev.Addr().Port(), HopLimit: 7, TrafficClass: 0x28, FlowLabel: 0x12345})
	if err != nil {
		t.Fatal(err)
	}
	mtu := a.dev.QueryPort().ActiveMTU
	for _, n := range []int{0, 1, 2, 3, 4, 63, 64, 65, 1024, mtu - 1, mtu} {
		for _, inline := range []bool{false, true} {
			if inline && n > 64 {
				continue
			}
			b.see()
			fill(a.buf[:n], uint64(n))
			fillWith(b.buf, canary)
			b.recv(t, 5, 8, grh+n)
			w := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: to, RemoteQPN: b.qp.Number(), RemoteQKey: 0x22}
			if inline {
				w.Inline = append([]byte{}, a.buf[:n]...)
			} else {
				w.SGL = []verbs.SGE{a.mr.SGE(0, n)}
			}
			a.post(t, w)
			a.ok(t, verbs.WCSend)
			wc := b.ok(t, verbs.WCRecv)
			if int(wc.ByteLen) != grh+n || wc.SrcQPN != a.qp.Number() || wc.Flags&verbs.WCGRH == 0 {
				t.Fatalf("%d bytes: completion %+v", n, wc)
			}
			h := b.buf[8 : 8+grh]
			src, dst := netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
			if h[0]>>4 != 6 || h[7] != 7 || src != netip.IPv6Loopback() || dst != netip.IPv6Loopback() {
				t.Fatalf("GRH area % x", h)
			}
			if tc := h[0]<<4 | h[1]>>4; tc&^3 != 0x28 {
				t.Errorf("traffic class %#x", tc)
			}
			if !bytes.Equal(b.buf[8+grh:8+grh+n], a.buf[:n]) || b.buf[8+grh+n] != canary {
				t.Fatalf("%d bytes: other bytes came", n)
			}
		}
	}
	// One byte more than the MTU does not fit in a datagram (IBTA 9.8.4).
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: to, SGL: []verbs.SGE{a.mr.SGE(0, mtu+1)}, RemoteQPN: b.qp.Number(), RemoteQKey: 0x22})
	if wc := a.one(t); wc.Status != verbs.LocLenErr {
		t.Fatalf("status %v", wc.Status)
	}
	if s := a.qp.State(); s != verbs.SQE {
		t.Fatalf("state %v", s)
	}
	if err := a.qp.Resume(); err != nil {
		t.Fatal(err)
	}
	b.recv(t, 6, 8, grh+8)
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: to, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteQPN: b.qp.Number(), RemoteQKey: 0x22})
	a.ok(t, verbs.WCSend)
	b.ok(t, verbs.WCRecv)
}

func TestAddressHandleOfAnotherDomainIsRefused(t *testing.T) {
	a := ends{qp: verbs.QPConfig{Type: verbs.UD}}.side(t, "127.7.2.7")
	a.readyUD(t, 1)
	other, err := a.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	ah, err := other.CreateAH(vector(a.dev))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, AH: ah, RemoteQPN: a.qp.Number(), RemoteQKey: 1}); err == nil {
		t.Fatal("posted")
	}
}
