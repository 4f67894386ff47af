package verbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// ethernetPair makes the two ends of a cable, of which only the first has an IP address. It
// reports false in the process that the test has started again.
func ethernetPair(t *testing.T) bool {
	if !hosttest.Inside(t) {
		return false
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	hosttest.Cable(t, "ca", "10.9.0.1/24")
	return true
}

func TestRoCEv1OverACable(t *testing.T) {
	if !ethernetPair(t) {
		return
	}
	a, b := ends{a: "roce1:ca", b: "roce1:cab", size: 1 << 20, qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	if got := a.dev.GIDs(); len(got) != 4 || got[3].Type != "RoCE v1" || got[0].GID.Addr() != netip.MustParseAddr("10.9.0.1") {
		t.Errorf("GIDs %v", got)
	}
	if got := b.dev.GID().Addr(); !got.IsLinkLocalUnicast() || b.dev.Protocol() != verbs.RoCEv1 || !b.dev.QueryPort().Active {
		t.Errorf("GID %v, protocol %v", got, b.dev.Protocol())
	}
	fill(a.buf, 1)
	a.post(t, a.write(0, len(a.buf)))
	a.ok(t, verbs.WCWrite)
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("the memory differs after the WRITE")
	}
	clear(b.buf)
	read := b.write(0, len(b.buf))
	read.Op = verbs.OpRead
	b.post(t, read)
	b.ok(t, verbs.WCRead)
	if !bytes.Equal(a.buf, b.buf) {
		t.Error("the memory differs after the READ")
	}
	for _, s := range []*side{a, b} {
		for name, n := range s.dev.Counters() {
			if strings.HasPrefix(name, "PACKET_") {
				t.Errorf("%s counted %d times", name, n)
			}
		}
	}
}

func TestRoCEv1DatagramArrivesAfterItsGRH(t *testing.T) {
	if !ethernetPair(t) {
		return
	}
	a, b := newSide(t, "roce1:ca", 8192, verbs.UD), newSide(t, "roce1:cab", 8192, verbs.UD)
	a.readyUD(t, 5)
	b.readyUD(t, 5)
	group := netip.MustParseAddr("ff0e::ffff:e001:203")
	if err := b.qp.AttachMulticast(group); err != nil {
		t.Fatal(err)
	}
	for _, dgid := range []verbs.GID{b.dev.GID(), verbs.GIDFrom(group)} {
		ah, err := a.pd.CreateAH(verbs.AddressVector{DGID: dgid, HopLimit: 9, TrafficClass: 0xb8, ServiceLevel: 5})
		if err != nil {
			t.Fatal(err)
		}
		b.recv(t, 1, 0, 100)
		copy(a.buf, "datagram")
		qpn := b.qp.Number()
		if dgid.Addr() == group {
			qpn = 0xffffff
		}
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, AH: ah, RemoteQPN: qpn, RemoteQKey: 5})
		a.ok(t, verbs.WCSend)
		if wc := b.ok(t, verbs.WCRecv); wc.ByteLen != grh+8 || string(b.buf[grh:grh+8]) != "datagram" {
			t.Fatalf("received %+v %q", wc, b.buf[grh:grh+8])
		}
		gid := a.dev.GID()
		if h := b.buf[:grh]; h[0]>>4 != 6 || h[6] != 0x1b || h[7] != 9 || !bytes.Equal(h[8:24], gid[:]) || !bytes.Equal(h[24:40], dgid[:]) {
			t.Errorf("GRH % x", h)
		}
	}
}

func TestRoCEv1GIDIsOneDevices(t *testing.T) {
	if !ethernetPair(t) {
		return
	}
	d, err := verbs.Open("roce1:ca", verbs.Config{Lanes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verbs.Open("roce1:10.9.0.1", verbs.Config{}); err == nil {
		t.Error("the same GID was opened twice")
	}
	v2, err := verbs.Open("10.9.0.1", verbs.Config{})
	if err != nil {
		t.Errorf("RoCE v2 on the same address: %v", err)
	} else if v2.Query().NodeGUID == d.Query().NodeGUID {
		t.Error("both devices have one node GUID")
	}
	if _, err := verbs.NewStack().Open("roce1:10.9.0.1", verbs.Config{}); err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another stack: error %v, expected %v", err, syscall.EADDRINUSE)
	}
	if v2 != nil {
		v2.Close()
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestRoCEv1WithoutTheRightOffersRoCEv2(t *testing.T) {
	hosttest.OnThread(t, func() {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		hosttest.Must(t, unix.Capset(&head, &none[0])) // of this thread, which ends with the test
		_, err := verbs.Open("roce1:127.0.0.1", verbs.Config{})
		if err == nil || !strings.Contains(err.Error(), "CAP_NET_RAW") || !strings.Contains(err.Error(), `RoCE v2 works without it: open "127.0.0.1"`) {
			t.Errorf("error %v", err)
		}
	})
}
