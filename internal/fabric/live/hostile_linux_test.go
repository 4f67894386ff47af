package live_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// dropped counts the reasons for which a fabric drops packets.
type dropped struct {
	mu     sync.Mutex
	counts map[reason.Reason]int
}

func (d *dropped) note(_ topology.End, why reason.Detail) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = make(map[reason.Reason]int)
	}
	d.counts[why.Reason]++
}

// noteRemote is note for packets of other hosts.
func (d *dropped) noteRemote(_ netip.AddrPort, why reason.Detail) { d.note(topology.End{}, why) }

func (d *dropped) count(r reason.Reason) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[r]
}

// dial connects to a fabric's socket.
func dial(t *testing.T, f *fabrictest.Fabric) *attach.Conn {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: f.Socket(), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return attach.NewConn(c)
}

func TestFramesThatAnAdapterCannotSendAreDropped(t *testing.T) {
	var d dropped
	f := fabrictest.StartWith(t, "star:2", func(c *live.Config) { c.Dropped = d.note })
	a, b := f.Attach(0), f.Attach(1)
	good := datagram(a, b, 0, 5, 64)
	for _, c := range []struct {
		name   string
		change func(p []byte) []byte
		want   reason.Reason
	}{
		{"another LID as source", func(p []byte) []byte { p[7] ^= 0x40; return p }, reason.PacketSLID},
		{"lane 15", func(p []byte) []byte { p[0] |= 0xf0; return p }, reason.FabricVL},
		{"queue pair 0", func(p []byte) []byte { copy(p[ib.LRHLen+5:], []byte{0, 0, 0}); return p }, reason.FabricManagementVL},
		{"permissive LID", func(p []byte) []byte { p[2], p[3] = 0xff, 0xff; return p }, reason.FabricManagementVL},
		{"link version", func(p []byte) []byte { p[0] |= 1; return p }, reason.PacketLRH},
		{"raw", func(p []byte) []byte { p[1] &^= 3; return p }, reason.PacketLRH},
		{"length", func(p []byte) []byte { return p[:len(p)-4] }, reason.FabricLength},
		{"no room for a GRH", func(p []byte) []byte {
			p = p[:40]
			p[1] |= 3
			p[5] = 10
			return p
		}, reason.FabricLength},
		{"not even an LRH", func(p []byte) []byte { return p[:3] }, reason.FabricLength},
	} {
		before := d.count(c.want)
		send(t, a, c.change(bytes.Clone(good)))
		fabrictest.WaitFor(t, c.name, func() bool { return d.count(c.want) > before })
	}
	send(t, a, good)
	if got := receive(t, b); !bytes.Equal(got, good) {
		t.Errorf("packet behind those: %x", got)
	}
}

func TestMalformedMessagesEndTheirConnectionAlone(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a, b := f.Attach(0), f.Attach(1)
	hello, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version, Node: "H1", Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	old, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version + 1, Node: "H1", Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		message []byte
		fds     []int
	}{
		{"no descriptor", hello, nil},
		{"a wrong version", old, []int{int(os.Stdin.Fd())}},
		{"too many descriptors", hello, []int{0, 0, 0, 0, 0}},
		{"no JSON", []byte{byte(attach.Hello), '{'}, []int{0}},
		{"an unknown kind", []byte{200}, nil},
		{"a packet before the hello", new(attach.Departure).Message(), nil},
		{"half an address", []byte{byte(attach.Find), 1, 2, 3}, nil},
		{"an address and a descriptor", append([]byte{byte(attach.Find)}, make([]byte, 16)...), []int{0}},
	} {
		conn := dial(t, f)
		if err := conn.Send(c.message, c.fds...); err != nil {
			t.Fatal(err)
		}
		if m, _, err := conn.Expect(attach.Welcome, 2); err == nil {
			t.Errorf("%s: %q", c.name, m)
		}
	}
	want := datagram(a, b, 0, 5, 64)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("packet: %x", got)
	}
}

// A program that writes nonsense into its rings loses its port. Others continue, and its port is
// free again.
func TestBrokenRings(t *testing.T) {
	var d dropped
	f := fabrictest.StartWith(t, "star:3", func(c *live.Config) { c.Dropped = d.note })
	a, b := f.Attach(0), f.Attach(1)
	conn := dial(t, f)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	address, err := attach.ParseAddress(f.Adapters[2])
	if err != nil {
		t.Fatal(err)
	}
	hello, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version, Node: address.Node, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(hello, bell); err != nil {
		t.Fatal(err)
	}
	_, fds, err := conn.Expect(attach.Welcome, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer fds.Close()
	mem, err := unix.Mmap(fds[0], 0, fabric.MemorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	x := byte(0xee)
	fabrictest.WaitFor(t, "the broken ring to be noticed", func() bool {
		if d.count(reason.HostRing) > 0 {
			return true
		}
		for i := range mem {
			mem[i] = x
		}
		x++ // the fabric may have looked before all of it was broken
		if _, err := unix.Write(fds[1], []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		return false
	})
	fabrictest.WaitFor(t, "the port", func() bool {
		p, err := attach.Open(t.Context(), f.Adapters[2])
		if err == nil {
			_ = p.Close()
		}
		return err == nil
	})
	want := datagram(a, b, 0, 5, 64)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("packet: %x", got)
	}
}
