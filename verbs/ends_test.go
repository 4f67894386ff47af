package verbs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// ends configures two connected ends. The zero value of a field suits most tests.
type ends struct {
	a, b    string // required; concurrent tests use different ones
	size    int    // bytes of each buffer, 0 means 64 KiB
	qp      verbs.QPConfig
	connect verbs.ConnectConfig
	mtu     int
	lanes   int
	config  verbs.Config // besides MTU, lanes and spin
	spin    time.Duration
}

// open makes two devices, each with a queue pair that is not connected.
func (e ends) open(t testing.TB) (a, b *side) {
	t.Helper()
	a, b = e.side(t, e.a), e.side(t, e.b)
	a.peer, b.peer = b, a
	return a, b
}

func (e ends) side(t testing.TB, addr string) *side {
	t.Helper()
	if e.size == 0 {
		e.size = 1 << 16
	}
	s := &side{buf: make([]byte, e.size)}
	var err error
	cfg := e.config
	cfg.MTU, cfg.Lanes, cfg.Spin = e.mtu, e.lanes, e.spin
	s.dev = openDevice(t, addr, cfg)
	t.Cleanup(func() { s.dev.Close() })
	if s.pd, err = s.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = s.dev.CreateCQ(verbs.CQConfig{Depth: 1024}); err != nil {
		t.Fatal(err)
	}
	if s.mr, err = s.pd.RegisterMemory(s.buf, allRights); err != nil {
		t.Fatal(err)
	}
	e.qp.SendCQ = s.cq
	if s.qp, err = s.pd.CreateQP(e.qp); err != nil {
		t.Fatal(err)
	}
	return s
}

// lanes makes every test use devices with several lanes.
var lanes = flag.Int("lanes", 1, "how many lanes devices have where the test does not say it")

// inMemory lets packets between the devices of a test stay in memory, as they do in programs.
// Otherwise they take the sockets, as between processes.
var inMemory = flag.Bool("inmemory", false, "hand packets between devices over in memory")

// overMemory lets packets between the devices of a test go through memory, as between
// processes of one host.
var overMemory = flag.Bool("samehost", false, "require the memory path between devices")

// overEthernet makes tests use RoCE v1 devices, which need CAP_NET_RAW.
var overEthernet = flag.Bool("roce1", false, "test RoCE v1 devices")

// overFabric makes tests use ports of an InfiniBand fabric.
var overFabric = flag.Bool("infiniband", false, "test devices on an InfiniBand fabric")

// openPort opens the port of a fabric that stands for an address.
var openPort func(t testing.TB, addr string, cfg verbs.Config) *verbs.Device

// joinGroup makes ports of a fabric members of a new multicast group, and returns its address.
var joinGroup func(t testing.TB, qkey uint32, members ...*side) verbs.AddressVector

// refused returns the reason of requests to a device that is gone.
func refused() string {
	if *overMemory {
		return "HOST_CLOSED"
	}
	return "SEND_REFUSED"
}

// needUDP skips a test of features that only RoCE v2 has: IP headers, UDP ports, ICMP.
func needUDP(t testing.TB) {
	t.Helper()
	if *overEthernet || *overFabric {
		t.Skip("SKIPPED with -roce1 and -infiniband: a test of UDP over IP")
	}
}

// openDevice waits for an address that another run of these tests has.
func openDevice(t testing.TB, addr string, cfg verbs.Config) *verbs.Device {
	t.Helper()
	if at, err := netip.ParseAddrPort(addr); err == nil && (*overEthernet || *overFabric) {
		t.Skipf("SKIPPED with -roce1 and -infiniband: %v has a UDP port", at)
	}
	if *overFabric && !strings.Contains(addr, ":") {
		return openPort(t, addr, cfg)
	}
	if *overEthernet && !strings.Contains(addr, "iwarp:") {
		addr = "roce1:" + strings.TrimPrefix(addr, "roce1:")
	}
	if cfg.Lanes == 0 && !strings.HasPrefix(addr, "iwarp:") && !strings.HasPrefix(addr, "shared:") {
		cfg.Lanes = *lanes
	}
	cfg.NoLoopback = cfg.NoLoopback || !*inMemory
	if *overMemory && cfg.SameHost == "" && !strings.Contains(addr, "iwarp:") {
		cfg.SameHost = verbs.SameHostRequire
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		d, err := verbs.Open(addr, cfg)
		if err == nil {
			return d
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// vector returns the address of a device's port, with a GRH on a fabric.
func vector(d *verbs.Device) verbs.AddressVector {
	return verbs.AddressVector{DGID: d.GID(), DLID: d.QueryPort().LID}
}

const allRights = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind | verbs.FlushGlobal

// pair is open, and connects the two.
func (e ends) pair(t testing.TB) (a, b *side) {
	t.Helper()
	a, b = e.open(t)
	e.join(t, a, b)
	return a, b
}

// join connects two ends. A busy machine does not reach the timeout (2.1 s): a READ that is
// repeated is executed again, at a time when the test may be writing its memory.
func (e ends) join(t testing.TB, a, b *side) {
	t.Helper()
	if e.connect.Timeout == 0 {
		e.connect.Timeout = 19
	}
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	if err := a.qp.Connect(ea, eb, e.connect); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.Connect(eb, ea, e.connect); err != nil {
		t.Fatal(err)
	}
}

// write returns a signalled WRITE of n bytes at the same offset of both buffers.
func (s *side) write(off, n int) verbs.SendWR {
	return verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(off, n)},
		RemoteAddr: s.peer.mr.Addr() + uint64(off), RKey: s.peer.mr.RKey(),
	}
}

// fill fills b with pseudorandom bytes.
func fill(b []byte, seed uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
}

// holds checks that s's buffer contains want at off, and that the bytes before and after it
// are still canary.
func (s *side) holds(t testing.TB, off int, want []byte) {
	t.Helper()
	got := s.buf[off : off+len(want)]
	if !bytes.Equal(got, want) {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%d bytes at %d: byte %d is %#x, expected %#x", len(want), off, i, got[i], want[i])
			}
		}
	}
	if a, b := s.buf[off-1], s.buf[off+len(want)]; a != canary || b != canary {
		t.Fatalf("%d bytes at %d: the bytes around them are %#x and %#x, expected %#x", len(want), off, a, b, canary)
	}
}

const canary = 0xa5

// event waits for the next event of a device.
func event(t *testing.T, d *verbs.Device, want verbs.EventType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if e, err := d.NextEvent(ctx); err != nil || e.Type != want {
		t.Fatalf("event %v (%v), expected %v", e, err, want)
	}
}
