package verbs_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
	"softrdma/verbs"
)

// A peer that writes random data into the shared memory only ends its own channel.
func TestScribblingHostPeerHarmsOnlyItself(t *testing.T) {
	hostDirectory(t)
	cfg := peerConfig{Lanes: 2, Size: 2 << 20, QPs: 1, Type: verbs.RC, Mode: verbs.SameHostAuto}
	cfg.Addr, cfg.Report = "127.7.43.3", true
	honest := startHostPeer(t, cfg)
	dev := openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostAuto, Lanes: 2})
	b := on(t, dev, make([]byte, 2<<20))
	honest.join(t, verbs.ConnectConfig{Timeout: 19}, b)
	for n := range 3 {
		cfg.Addr = fmt.Sprintf("127.7.43.%d", 10+n)
		bad := startHostPeer(t, cfg)
		a := on(t, dev, make([]byte, 2<<20))
		bad.join(t, fast, a)
		var done atomic.Int64
		failed := a.streams(t, 4, &done, func(int) verbs.SendWR { return bad.to(a, verbs.OpWrite, 0, 1<<20) })
		eventually(t, "traffic", func() bool { return done.Load() > 5 })
		if s := bad.tell(t, "scribble", "scribbles over "); strings.TrimSpace(s) == "0" {
			t.Fatal("the peer has no shared memory")
		}
		eventually(t, "end of the channel", func() bool { return a.qp.Path() == verbs.PathNetwork || a.qp.State() == verbs.Err })
		for i := range uint64(4) {
			b.round(t, honest, 4*uint64(n)+i)
		}
		bad.kill()
		if wc := <-failed; wc.Status == verbs.Success {
			t.Errorf("completion %+v", wc)
		}
		if p := b.qp.Path(); p != verbs.PathSameHost {
			t.Fatalf("path of the honest peer: %q, %v", p, b.qp.WhyNetwork())
		}
	}
	honest.end(t)
}

// A connection through memory accepts nothing from the network, however valid the packet is.
func TestAttackPacketsToConnectionThroughMemory(t *testing.T) {
	hostDirectory(t)
	cfg := peerConfig{Lanes: 1, Size: 2 << 20, QPs: 1, Type: verbs.RC, Mode: verbs.SameHostAuto, Addr: "127.7.44.3", Report: true}
	peer := startHostPeer(t, cfg)
	dev := openHost(t, "127.7.44.1", verbs.Config{SameHost: verbs.SameHostAuto, Lanes: 1})
	a := on(t, dev, make([]byte, 2<<20))
	peer.join(t, verbs.ConnectConfig{Timeout: 19}, a)
	a.round(t, peer, 0)
	if p := a.qp.Path(); p != verbs.PathSameHost {
		t.Skipf("SKIPPED: the path is %q: %v", p, a.qp.WhyNetwork())
	}
	s := attack.NewSocket(t, netip.MustParseAddrPort("127.7.44.3:0")) // with the peer's address
	before := honest.Refusals(dev)
	n := attack.Count(500)
	for i := range n {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, DestQPN: a.qp.Number(), PSN: psn.New(uint32(i)), AckReq: true}, Payload: []byte("forged..")}
		if err := s.Send(attack.Packet(s.Addr(), dev.Addr(), p)); err != nil {
			t.Fatal(err)
		}
	}
	honest.Counted(t, dev, before, "PACKET_PATH", uint64(n))
	a.round(t, peer, 1)
	peer.end(t)
}

// areas returns the address and size of each writable mapped area of this process's channels.
func areas(t testing.TB) (list [][2]uintptr) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var from, to uintptr
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n == 3 && strings.Contains(line, "softrdma-host") && strings.HasPrefix(rights, "rw") {
			list = append(list, [2]uintptr{from, to - from})
		}
	}
	return list
}

// scribble writes random words over all areas of this process, including those of its peers,
// until the process is killed. It makes its own mappings, which survive the end of the
// channel.
func scribble() {
	var mem [][]byte
	for _, a := range areas(panicking{}) {
		// With length 0, mremap makes a second mapping of shared memory.
		at, _, no := unix.Syscall6(unix.SYS_MREMAP, a[0], 0, a[1], unix.MREMAP_MAYMOVE, 0, 0)
		if no != 0 {
			panic(no)
		}
		mem = append(mem, unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), int(a[1])))
	}
	fmt.Println("scribbles over", len(mem))
	for {
		for _, b := range mem {
			at, v := rand.IntN(len(b)), byte(rand.Uint32())
			switch rand.IntN(4) {
			case 0: // the rings' words and first slots
				b[4096+rand.IntN(512)] = v
			case 1:
				b[8192+rand.IntN(128*64)] = v
			default:
				b[at] = v
			}
		}
	}
}

// panicking is a testing.TB for a process that will be killed.
type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
