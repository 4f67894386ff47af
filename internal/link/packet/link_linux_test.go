package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/internal/link"
)

const testType = 0x88b5 // IEEE 802: for local experiments

// all accepts every frame.
var all = []bpf.Instruction{bpf.RetConstant{Val: 1 << 20}}

// first accepts frames whose first byte behind the Ethernet header is b.
func first(b byte) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: ethernetLen, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(b), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 20},
		bpf.RetConstant{Val: 0},
	}
}

// inNamespace runs a test in a network namespace with a cable between ca, which has 10.9.0.1,
// and cab.
func inNamespace(t *testing.T, test func(t *testing.T)) {
	hosttest.InNamespace(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.LinkSetUp(lo))
		hosttest.Cable(t, "ca", "10.9.0.1/24")
		test(t)
	})
}

// opened opens a link on an interface.
func opened(t *testing.T, name string, filter []bpf.Instruction) *Link {
	t.Helper()
	list, err := Open(Config{Interface: name, EtherType: testType, MaxFrame: 1514, ReceiveBuffer: 1 << 18}, 1)
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = list[0].Close() })
	hosttest.Must(t, list[0].Filter(filter))
	return list[0]
}

// ethernet returns a frame of n bytes.
func ethernet(from, to *Link, kind byte, n int) []byte {
	b := make([]byte, n)
	copy(b, to.iface.mac[:])
	copy(b[6:], from.iface.mac[:])
	binary.BigEndian.PutUint16(b[12:], testType)
	b[ethernetLen] = kind
	for i := ethernetLen + 1; i < n; i++ {
		b[i] = byte(i * 7)
	}
	return b
}

func send(t *testing.T, l *Link, via *link.Flow, frames ...[]byte) {
	t.Helper()
	tx := link.Tx{Flow: via, Pieces: frames, Size: len(frames[0])}
	for _, f := range frames {
		tx.Bytes += len(f)
	}
	hosttest.Must(t, l.Send(&tx))
}

// receive waits for a frame.
func receive(t *testing.T, l *Link) []byte {
	t.Helper()
	var rx link.Rx
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		ok, err := l.Receive(&rx)
		hosttest.Must(t, err)
		if ok {
			if rx.Size != len(rx.Data) {
				t.Errorf("size %d of %d bytes", rx.Size, len(rx.Data))
			}
			return bytes.Clone(rx.Data)
		}
		hosttest.Must(t, l.Wait(time.Second))
	}
	hosttest.Must(t, errors.New("no frame came"))
	return nil
}

// quiet checks that there is nothing to receive. A frame sent on a cable has arrived when Send
// returns.
func quiet(t *testing.T, l *Link) {
	t.Helper()
	var rx link.Rx
	if ok, err := l.Receive(&rx); ok || err != nil {
		t.Errorf("received %x, error %v, expected nothing", rx.Data, err)
	}
}

func TestLinkBatchArrivesInOrderAndNotAtTheSender(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b := opened(t, "ca", all), opened(t, "cab", all)
		var pieces [][]byte
		var want [][]byte
		for i := range 40 {
			f := ethernet(a, b, byte(i), 1000)
			if i == 39 {
				f = f[:700]
			}
			want = append(want, f)
			pieces = append(pieces, f[:60], f[60:61], f[61:])
		}
		tx := link.Tx{Flow: a.Wire(), Pieces: pieces, Size: 1000, Bytes: 39*1000 + 700}
		hosttest.Must(t, a.Send(&tx))
		for i, w := range want {
			if got := receive(t, b); !bytes.Equal(got, w) {
				t.Fatalf("frame %d: %x, expected %x", i, got, w)
			}
		}
		quiet(t, a)
		quiet(t, b)
	})
}

func TestLinkRingWrapsAndDropsExcessFrames(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b := opened(t, "ca", all), opened(t, "cab", all)
		for round := range 3 * b.in.slots / 50 {
			var want [][]byte
			for i := range 50 {
				want = append(want, ethernet(a, b, byte(round+i), 200))
			}
			send(t, a, a.Wire(), want...)
			for i, w := range want {
				if got := receive(t, b); !bytes.Equal(got, w) {
					t.Fatalf("round %d, frame %d: %x, expected %x", round, i, got, w)
				}
			}
		}
		quiet(t, b) // frees the last slot
		for i := range b.in.slots + 20 {
			send(t, a, a.Wire(), ethernet(a, b, byte(i), 200))
		}
		for i := range b.in.slots {
			if got := receive(t, b); got[ethernetLen] != byte(i) {
				t.Fatalf("frame %d is number %d", i, got[ethernetLen])
			}
		}
		quiet(t, b)
	})
}

func TestLinkHostRouteReachesAnotherLinkOnTheInterface(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b, other := opened(t, "ca", first(1)), opened(t, "ca", first(2)), opened(t, "cab", first(1))
		f := ethernet(a, b, 2, 100)
		copy(f, make([]byte, 12)) // the loopback's addresses are zero
		send(t, a, a.Host(), f)
		if got := receive(t, b); !bytes.Equal(got, f) {
			t.Errorf("%x, expected %x", got, f)
		}
		quiet(t, a)
		quiet(t, other)
	})
}

func TestLinkBothRoutesReachAllMembers(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b, other := opened(t, "ca", all), opened(t, "ca", all), opened(t, "cab", all)
		group := [6]byte{0x33, 0x33, 0, 0, 0, 1}
		hosttest.Must(t, other.JoinMAC(group))
		f := ethernet(a, b, 2, 100)
		copy(f, group[:])
		send(t, a, a.Everywhere(), f)
		for _, l := range []*Link{a, b, other} {
			if got := receive(t, l); !bytes.Equal(got, f) {
				t.Errorf("%x, expected %x", got, f)
			}
			quiet(t, l)
		}
		hosttest.Must(t, other.LeaveMAC(group))
	})
}

func TestLinkOnTheLoopbackReachesOthersOnce(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b := opened(t, "lo", first(1)), opened(t, "lo", first(2))
		for name, via := range map[string]*link.Flow{"wire": a.Wire(), "host": a.Host(), "everywhere": a.Everywhere()} {
			f := ethernet(a, b, 2, 100)
			send(t, a, via, f)
			if got := receive(t, b); !bytes.Equal(got, f) {
				t.Errorf("%s: %x, expected %x", name, got, f)
			}
			quiet(t, b)
		}
	})
}

func TestLinkIgnoresOtherInterfacesAndHosts(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		hosttest.Cable(t, "cx", "10.9.1.1/24")
		a, b, x := opened(t, "ca", all), opened(t, "cab", all), opened(t, "cx", all)
		f := ethernet(a, b, 1, 100)
		f[5] ^= 1 // another host's address
		send(t, a, a.Wire(), f)
		quiet(t, b)
		send(t, a, a.Wire(), ethernet(a, b, 1, 100))
		receive(t, b)
		quiet(t, x)
	})
}

func TestLinkWakeAndCloseEndAWait(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a := opened(t, "ca", all)
		done := make(chan error)
		go func() { done <- a.Wait(-1) }()
		a.Wake()
		if err := <-done; err != nil {
			t.Error(err)
		}
		go func() { done <- a.Wait(-1) }()
		hosttest.Must(t, a.Close())
		if err := <-done; !errors.Is(err, link.ErrClosed) {
			t.Errorf("error %v, expected %v", err, link.ErrClosed)
		}
		var rx link.Rx
		if _, err := a.Receive(&rx); !errors.Is(err, link.ErrClosed) {
			t.Errorf("receive: error %v, expected %v", err, link.ErrClosed)
		}
		if err := a.Send(&link.Tx{Flow: a.Wire(), Pieces: [][]byte{{1}}, Bytes: 1, Size: 1}); !errors.Is(err, link.ErrClosed) {
			t.Errorf("send: error %v, expected %v", err, link.ErrClosed)
		}
	})
}

func TestLinkWaitEndsByWatchedDescriptor(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		l := opened(t, "ca", nothing)
		fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		hosttest.Must(t, err)
		t.Cleanup(func() {
			_ = l.Close()
			_ = unix.Close(fd)
		})
		l.Watch(fd)
		done := make(chan error)
		go func() { done <- l.Wait(-1) }()
		_, err = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1))
		hosttest.Must(t, err)
		hosttest.Must(t, <-done)
	})
}

func TestLinkRefusesWrongBatches(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a := opened(t, "ca", all)
		long := make([]byte, 200)
		for name, tx := range map[string]*link.Tx{
			"empty":           {Flow: a.Wire(), Size: 100},
			"no size":         {Flow: a.Wire(), Pieces: [][]byte{long}, Bytes: 200},
			"too many frames": {Flow: a.Wire(), Pieces: [][]byte{long}, Bytes: 200, Size: 1},
		} {
			if err := a.Send(tx); !errors.Is(err, ErrBatch) {
				t.Errorf("%s: error %v, expected %v", name, err, ErrBatch)
			}
		}
		if err := a.Send(&link.Tx{Flow: &link.Flow{Handle: 7}, Pieces: [][]byte{long}, Bytes: 200, Size: 200}); !errors.Is(err, ErrFlow) {
			t.Errorf("unknown flow: error %v, expected %v", err, ErrFlow)
		}
	})
}

func TestOpenRefusesAClaimTwice(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		cfg := Config{Interface: "ca", EtherType: testType, MaxFrame: 1514, ReceiveBuffer: 1 << 18, Claim: "softrdma test"}
		list, err := Open(cfg, 2)
		hosttest.Must(t, err)
		if _, err := Open(cfg, 1); !errors.Is(err, ErrInUse) {
			t.Errorf("error %v, expected %v", err, ErrInUse)
		}
		for _, l := range list {
			hosttest.Must(t, l.Close())
		}
		list, err = Open(cfg, 1)
		hosttest.Must(t, err)
		hosttest.Must(t, list[0].Close())
	})
}

func TestOpenWithoutTheRightNamesIt(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		hosttest.Must(t, unix.Capset(&head, &none[0])) // of this thread, which ends with the test
		_, err := Open(Config{Interface: "ca", EtherType: testType, MaxFrame: 1514}, 1)
		if !errors.Is(err, ErrRight) || !errors.Is(err, unix.EPERM) {
			t.Errorf("error %v, expected %v", err, ErrRight)
		}
	})
}

func TestOpenRefusesOtherInterfaces(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		err := netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun7"}, Mode: netlink.TUNTAP_MODE_TUN})
		if err != nil {
			t.Skipf("SKIPPED: no TUN device can be made here: %v", err)
		}
		if _, err := Open(Config{Interface: "tun7", EtherType: testType, MaxFrame: 1514}, 1); !errors.Is(err, ErrInterface) {
			t.Errorf("error %v, expected %v", err, ErrInterface)
		}
	})
}

// apart moves an interface to a new namespace and gives it an address there.
func apart(t *testing.T, l netlink.Link, addr string) {
	t.Helper()
	here, err := netns.Get()
	hosttest.Must(t, err)
	defer here.Close()
	there, err := netns.New() // moves this thread into it
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = there.Close() })
	hosttest.Must(t, netns.Set(here))
	hosttest.Must(t, netlink.LinkSetNsFd(l, int(there)))
	h, err := netlink.NewHandleAt(there)
	hosttest.Must(t, err)
	defer h.Close()
	a, err := netlink.ParseAddr(addr)
	hosttest.Must(t, err)
	hosttest.Must(t, h.AddrAdd(l, a))
	hosttest.Must(t, h.LinkSetUp(l))
}

func TestNeighbourAsksTheNetwork(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		other, err := netlink.LinkByName("cab")
		hosttest.Must(t, err)
		apart(t, other, "10.9.0.2/24")
		a := opened(t, "ca", all)
		gid := netip.MustParseAddr("::ffff:10.9.0.2")
		mac, err := a.Ask(gid, 10*time.Second)
		if err != nil || !bytes.Equal(mac[:], other.Attrs().HardwareAddr) {
			t.Errorf("MAC %x, error %v, expected %v", mac, err, other.Attrs().HardwareAddr)
		}
		if n, err := a.Known(gid); err != nil || !n.Known || n.Local || n.MAC != mac {
			t.Errorf("known %+v, error %v, expected MAC %x", n, err, mac)
		}
		var none *link.NeighbourError
		absent := netip.MustParseAddr("10.9.0.77")
		if n, err := a.Known(absent); err != nil || n != (link.Neighbour{}) {
			t.Errorf("before asking for nobody's address: %+v, error %v", n, err)
		}
		if _, err := a.Ask(absent, time.Millisecond); !errors.As(err, &none) || none.Err != nil {
			t.Errorf("nobody's address: error %v", err)
		}
		if n, err := a.Known(absent); err != nil || !n.Asking || n.Known {
			t.Errorf("behind asking for nobody's address: %+v, error %v", n, err)
		}
		if _, err := a.Ask(netip.MustParseAddr("2001:db8::1"), time.Millisecond); !errors.As(err, &none) || none.Err == nil {
			t.Errorf("an address that is on no link: error %v", err)
		}
	})
}

func TestNeighbourOfThisHostIsLocal(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a := opened(t, "ca", all)
		for _, s := range []string{"10.9.0.1", "127.0.0.5"} {
			if n, err := a.Known(netip.MustParseAddr(s)); err != nil || !n.Local || n.Known {
				t.Errorf("%s: %+v, error %v", s, n, err)
			}
		}
	})
}

// tagOf returns the 802.1Q tag of the next frame that a capturing socket receives.
func tagOf(t *testing.T, fd int) (tci uint16, tagged bool) {
	t.Helper()
	b, oob := make([]byte, 2000), make([]byte, 100)
	hosttest.Must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	_, n, _, _, err := unix.Recvmsg(fd, b, oob, 0)
	hosttest.Must(t, err)
	list, err := unix.ParseSocketControlMessage(oob[:n])
	hosttest.Must(t, err)
	for _, m := range list {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA {
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			return aux.Vlan_tci, aux.Status&unix.TP_STATUS_VLAN_VALID != 0
		}
	}
	hosttest.Must(t, errors.New("no auxiliary data"))
	return 0, false
}

func TestVLANFramesLeaveWithTheirOwnTag(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		for _, name := range []string{"ca", "cab"} {
			parent, err := netlink.LinkByName(name)
			hosttest.Must(t, err)
			v := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: name + ".7", ParentIndex: parent.Attrs().Index}, VlanId: 7}
			if err := netlink.LinkAdd(v); err != nil {
				t.Skipf("SKIPPED: no VLAN interface can be made here: %v", err)
			}
			hosttest.Must(t, netlink.LinkSetUp(v))
		}
		a, b, plain := opened(t, "ca.7", all), opened(t, "cab.7", all), opened(t, "cab", all)
		if id, tagged := a.VLAN(); id != 7 || !tagged {
			t.Errorf("VLAN %d %v, expected 7", id, tagged)
		}
		watch, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_ALL)))
		hosttest.Must(t, err)
		defer unix.Close(watch)
		hosttest.Must(t, unix.SetsockoptInt(watch, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
		hosttest.Must(t, unix.Bind(watch, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: plain.iface.index}))

		inner := ethernet(a, b, 1, 100)
		f := append(append(bytes.Clone(inner[:12]), 0x81, 0x00, 5<<5, 7), inner[12:]...)
		send(t, a, a.Wire(), f)
		if got := receive(t, b); !bytes.Equal(got, inner) {
			t.Errorf("%x, expected %x", got, inner)
		}
		quiet(t, plain)
		if tci, tagged := tagOf(t, watch); !tagged || tci != 5<<13|7 {
			t.Errorf("tag %#x %v, expected priority 5 in VLAN 7", tci, tagged)
		}
	})
}

func TestFilterTooLongIsRefused(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a := opened(t, "ca", all)
		if err := a.Filter(make([]bpf.Instruction, maxFilter)); !errors.Is(err, ErrFilter) {
			t.Errorf("error %v, expected %v", err, ErrFilter)
		}
	})
}

func TestTaggedFramesArriveByTheirVLAN(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		a, b := opened(t, "ca", all), opened(t, "cab", all)
		inner := ethernet(a, b, 1, 100)
		tagged := func(vlan byte) []byte {
			return append(append(bytes.Clone(inner[:12]), 0x81, 0x00, 5<<5, vlan), inner[12:]...)
		}
		send(t, a, a.Wire(), tagged(7)) // this host is not in VLAN 7
		send(t, a, a.Wire(), tagged(0)) // IEEE 802.1Q 9.6: only a priority
		if got := receive(t, b); !bytes.Equal(got, inner) {
			t.Errorf("%x, expected %x", got, inner)
		}
		quiet(t, b)
	})
}
