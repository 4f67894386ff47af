package verbs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/daemontest"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/testenv"
	"softrdma/verbs"
)

// shareAddress serves a device on an address that programs share, and returns the name by
// which they open devices there.
func shareAddress(t testing.TB, addr string) (*served, string) {
	t.Helper()
	if *overEthernet || *overMemory || *overFabric {
		t.Skip("SKIPPED with -roce1, -samehost and -infiniband: only RoCE v2 addresses are shared, and these tests choose the path")
	}
	hostDirectory(t)
	dev := openDevice(t, addr, verbs.Config{Shared: true})
	s := serve(t, dev)
	return s, "shared:" + filepath.Join(s.dir, "socket")
}

// openShared opens a device on a shared address in this process.
func openShared(t testing.TB, name string) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// exchange checks the operations of a connected queue pair with a peer in another process.
func exchange(t *testing.T, p *hostPeer, s *side) {
	t.Helper()
	const half = peerSlots * peerSlot // the first half is for WRITEs and READs
	for i, n := range []int{1, 8, 4096, 65536, half / 2} {
		fill(s.buf[:n], uint64(i))
		s.post(t, p.to(s, verbs.OpWrite, 0, n))
		s.ok(t, verbs.WCWrite)
		want := slices.Clone(s.buf[:n])
		clear(s.buf[:n])
		s.post(t, p.to(s, verbs.OpRead, 0, n))
		if s.ok(t, verbs.WCRead); !slices.Equal(s.buf[:n], want) {
			t.Fatalf("WRITE and READ of %d bytes: other bytes came back", n)
		}
	}
	for i := range 3 * peerSlots {
		putMessage(s.buf[:1000], uint64(i))
		s.post(t, p.to(s, verbs.OpSend, 0, 1000))
		s.ok(t, verbs.WCSend)
		p.line(t, "message 1000")
	}
}

const sharedSize = 2 * peerSlots * peerSlot

// Programs on one address reach each other, the daemon's own device there, and a device on
// another address.
func TestSharedAddressCarriesEveryOperation(t *testing.T) {
	for _, mode := range []verbs.SameHost{verbs.SameHostOff, verbs.SameHostAuto} {
		t.Run(string(mode), func(t *testing.T) { carriesEveryOperation(t, "", mode) })
		t.Run("RoCE v1 "+string(mode), func(t *testing.T) {
			testenv.Root(t, "sends Ethernet frames")
			carriesEveryOperation(t, "roce1:", mode)
		})
	}
}

func carriesEveryOperation(t *testing.T, protocol string, mode verbs.SameHost) {
	_, name := shareAddress(t, protocol+"127.7.42.1")
	want := verbs.PathSameHost
	if mode == verbs.SameHostOff {
		want = verbs.PathNetwork
	}
	program, err := verbs.Open(name, verbs.Config{SameHost: mode})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	elsewhere := openDevice(t, protocol+"127.7.42.2", verbs.Config{SameHost: mode})
	defer elsewhere.Close()
	for _, c := range []struct {
		from *verbs.Device
		to   string
	}{{program, name}, {elsewhere, name}, {program, protocol + "127.7.42.3"}} {
		p := startHostPeer(t, peerConfig{Addr: c.to, Size: sharedSize, QPs: 1, Type: verbs.RC, Report: true, Mode: mode})
		s := on(t, c.from, make([]byte, sharedSize))
		p.join(t, verbs.ConnectConfig{Timeout: 19}, s)
		exchange(t, p, s)
		if path := s.qp.Path(); path != want {
			t.Errorf("%v to %v: path %q, expected %q: %v", c.from.Addr(), c.to, path, want, s.qp.WhyNetwork())
		}
		p.end(t)
	}
}

// Two devices on one address in one process, and the daemon's own, exchange in all
// directions.
func TestSharedAddressWithinAProcess(t *testing.T) { withinAProcess(t, "127.7.42.1") }

func TestSharedPortWithinAProcess(t *testing.T) {
	withinAProcess(t, "ib:"+fabrictest.Start(t, "star:2").Adapters[0])
}

// Programs share a host of an Ethernet for each protocol and address.
func TestSharedHostOfAnEthernet(t *testing.T) {
	host := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {}).Adapters[0]
	for addr, group := range map[string]string{
		"eth:" + host: "239.77.42.1", "eth:test/fd00::a00:1": "ff0e::7742",
		"roce1:eth:" + host: "ff0e::ffff:ef4d:2a01", "roce1:eth:test/fd00::a00:1": "ff0e::7742",
	} {
		t.Run(addr, func(t *testing.T) { withinAProcess(t, addr) })
		t.Run("group "+addr, func(t *testing.T) { groupReachesAll(t, addr, netip.MustParseAddr(group)) })
	}
}

func withinAProcess(t *testing.T, addr string) {
	daemon, name := shareAddress(t, addr)
	devices := []*verbs.Device{daemon.dev, openShared(t, name), openShared(t, name)}
	for _, from := range devices {
		for _, to := range devices {
			a, b := on(t, from, make([]byte, 1<<20)), on(t, to, make([]byte, 1<<20))
			a.peer, b.peer = b, a
			ends{}.join(t, a, b)
			fill(a.buf, 1)
			a.post(t, a.write(0, len(a.buf)))
			if a.ok(t, verbs.WCWrite); !slices.Equal(a.buf, b.buf) {
				t.Error("other bytes arrived")
			}
		}
	}
	if devices[1].Query() != daemon.dev.Query() || devices[1].Addr() != daemon.dev.Addr() || devices[1].QueryPort().ActiveMTU != daemon.dev.QueryPort().ActiveMTU {
		t.Errorf("device %+v on %v differs from the daemon's %+v on %v", devices[1].Query(), devices[1].Addr(), daemon.dev.Query(), daemon.dev.Addr())
	}
}

func TestSharedAddressDatagrams(t *testing.T) {
	_, name := shareAddress(t, "127.7.42.1")
	p := startHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.UD, Report: true})
	s := onType(t, openShared(t, name), make([]byte, sharedSize), verbs.UD)
	p.join(t, verbs.ConnectConfig{}, s)
	ah, err := s.pd.CreateAH(verbs.AddressVector{DGID: s.dev.GID()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * peerSlots {
		putMessage(s.buf[:1000], uint64(i))
		s.post(t, verbs.SendWR{
			Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, 1000)},
			AH: ah, RemoteQPN: p.info.Ends[0].QPN, RemoteQKey: peerQKey,
		})
		s.ok(t, verbs.WCSend)
		p.line(t, "message 1000")
	}
	p.end(t)
}

// No datagram is lost if memory is required: datagrams to a device on a shared address wait
// for a channel to it. The device may be opened after the address handle was made.
func TestSharedAddressDatagramsThroughMemory(t *testing.T) {
	_, name := shareAddress(t, "127.7.42.1")
	require := verbs.Config{SameHost: verbs.SameHostRequire}
	program, err := verbs.Open(name, require)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	elsewhere := openDevice(t, "127.7.42.2", require)
	defer elsewhere.Close()
	for _, from := range []*verbs.Device{program, elsewhere} {
		s := onType(t, from, make([]byte, sharedSize), verbs.UD)
		s.readyUD(t, peerQKey)
		ah, err := s.pd.CreateAH(verbs.AddressVector{DGID: program.GID()})
		if err != nil {
			t.Fatal(err)
		}
		p := startHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.UD, Report: true, Mode: verbs.SameHostRequire})
		p.join(t, verbs.ConnectConfig{}, onType(t, from, make([]byte, sharedSize), verbs.UD))
		for i := range 3 * peerSlots {
			putMessage(s.buf[:1000], uint64(i))
			s.post(t, verbs.SendWR{
				Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, 1000)},
				AH: ah, RemoteQPN: p.info.Ends[0].QPN, RemoteQKey: peerQKey,
			})
			s.ok(t, verbs.WCSend)
			p.line(t, "message 1000")
		}
		p.end(t)
	}
}

// Datagrams to a device that does not exist do not delay those to others.
func TestSharedAddressDatagramsToMissingDevice(t *testing.T) {
	_, name := shareAddress(t, "127.7.42.1")
	dev, err := verbs.Open(name, verbs.Config{SameHost: verbs.SameHostRequire})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s := onType(t, dev, make([]byte, sharedSize), verbs.UD)
	s.readyUD(t, peerQKey)
	p := startHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.UD, Report: true, Mode: verbs.SameHostRequire})
	p.join(t, verbs.ConnectConfig{}, onType(t, dev, make([]byte, sharedSize), verbs.UD))
	ah, err := s.pd.CreateAH(verbs.AddressVector{DGID: dev.GID()})
	if err != nil {
		t.Fatal(err)
	}
	const unassigned = 0xabcd80 // of a free lane
	for i := range 10 {
		putMessage(s.buf[:1000], uint64(i))
		for _, qpn := range []uint32{unassigned, p.info.Ends[0].QPN} {
			s.post(t, verbs.SendWR{
				Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, 1000)}, AH: ah, RemoteQPN: qpn, RemoteQKey: peerQKey,
			})
			s.ok(t, verbs.WCSend)
		}
		p.line(t, "message 1000")
	}
	if n := counter(dev, "HOST_CLOSED"); n != 10 {
		t.Errorf("%d datagrams to nobody were counted, expected 10", n)
	}
	p.end(t)
}

// Each program on an address joins multicast groups separately.
func TestSharedAddressMulticast(t *testing.T) {
	sharedMulticast(t, "127.7.42.1", netip.MustParseAddr("239.77.42.1"))
}

func sharedMulticast(t *testing.T, addr string, group netip.Addr) {
	members := joinShared(t, addr, group)
	for i, from := range members {
		ah, err := from.pd.CreateAH(verbs.AddressVector{DGID: verbs.GIDFrom(group)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			m.recv(t, 7, 1024, 2048)
		}
		from.post(t, verbs.SendWR{
			Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{from.mr.SGE(0, 100)}, AH: ah, RemoteQPN: 0xffffff, RemoteQKey: peerQKey,
		})
		for k, m := range members {
			want := []verbs.WCOp{verbs.WCRecv}
			if k == i {
				want = append(want, verbs.WCSend)
			}
			for range want {
				if wc := m.one(t); wc.Err() != nil || !slices.Contains(want, wc.Op) {
					t.Errorf("member %d: %v, %v", k, wc.Op, wc.Err())
				}
			}
		}
	}
}

// joinShared opens a device and two that share it, and lets a queue pair of each join a group.
func joinShared(t *testing.T, addr string, group netip.Addr) (members []*side) {
	daemon, name := shareAddress(t, addr)
	for _, dev := range []*verbs.Device{daemon.dev, openShared(t, name), openShared(t, name)} {
		s := onType(t, dev, make([]byte, 4096), verbs.UD)
		s.readyUD(t, peerQKey)
		if err := s.qp.AttachMulticast(group); err != nil {
			t.Fatal(err)
		}
		members = append(members, s)
	}
	return members
}

// groupReachesAll is sharedMulticast for a fabric, which learns of members a little later: what is sent before is
// lost, so it is sent again.
func groupReachesAll(t *testing.T, addr string, group netip.Addr) {
	members := joinShared(t, addr, group)
	posted := make([]int, len(members))
	for _, from := range members {
		ah, err := from.pd.CreateAH(verbs.AddressVector{DGID: verbs.GIDFrom(group)})
		if err != nil {
			t.Fatal(err)
		}
		got, sending := make(map[int]bool), false
		eventually(t, "all members receive", func() bool {
			for k, m := range members {
				if posted[k] < 2 {
					m.recv(t, 7, 1024, 2048)
					posted[k]++
				}
			}
			if !sending {
				sending = true
				from.post(t, verbs.SendWR{
					Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{from.mr.SGE(0, 100)}, AH: ah, RemoteQPN: 0xffffff, RemoteQKey: peerQKey,
				})
			}
			for k, m := range members {
				var list [8]verbs.WC
				n, err := m.cq.Poll(list[:])
				if err != nil {
					t.Fatal(err)
				}
				for _, wc := range list[:n] {
					switch {
					case wc.Err() != nil:
						t.Fatalf("member %d: %v, %v", k, wc.Op, wc.Err())
					case wc.Op == verbs.WCSend:
						sending = false
					default:
						posted[k]--
						got[k] = got[k] || wc.SrcQPN == from.qp.Number()
					}
				}
			}
			return len(got) == len(members) && !sending && !slices.Contains([]bool{got[0], got[1], got[2]}, false)
		})
	}
}

func TestSharedAddressRefusals(t *testing.T) {
	defer verbs.SetSharedLanes(3)()
	s, name := shareAddress(t, "127.7.42.1")
	first, second := openShared(t, name), openShared(t, name)
	if _, err := verbs.Open(name, verbs.Config{}); reasonOf(err) != "SLOTS_TAKEN" || !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a third program of two: %v", err)
	}
	if n := s.server.Count().Slots; n != 2 {
		t.Errorf("%d slots are taken, expected 2", n)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot is free", func() bool { return s.server.Count().Slots == 1 })
	openShared(t, name)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for setting, cfg := range map[string]verbs.Config{"MTU": {MTU: 1024}, "Lanes": {Lanes: 2}, "Shared": {Shared: true}, "Markers": {Markers: true}} {
		if _, err := verbs.Open(name, cfg); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if _, err := verbs.Open(name+"/rxe1", verbs.Config{}); err == nil {
		t.Error("a device that there is none of")
	}
	if _, err := verbs.Open("127.7.42.1", verbs.Config{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the address without a slot: %v", err)
	}
	unshared := serve(t, openDevice(t, "127.7.42.4", verbs.Config{}))
	if _, err := verbs.Open("shared:"+filepath.Join(unshared.dir, "socket"), verbs.Config{}); reasonOf(err) != "SLOT_UNSHARED" {
		t.Errorf("a device that is not shared: %v", err)
	}
}

// Programs that are killed at any moment leave nothing, and do not disturb others on the
// address.
func TestSharedAddressSurvivesKills(t *testing.T) {
	s, name := shareAddress(t, "127.7.42.1")
	rounds := 500
	if testing.Short() {
		rounds = 30
	}
	own := openShared(t, name)
	p := startHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.RC, Report: true})
	a := on(t, own, make([]byte, sharedSize))
	p.join(t, verbs.ConnectConfig{Timeout: 19}, a)
	before := openDescriptors(t)
	r := rand.New(rand.NewPCG(42, uint64(rounds)))
	for i := range rounds {
		victim := launchHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.RC})
		if i%10 == 0 {
			exchange(t, p, a)
		}
		if i%3 == 0 {
			victim.meet(t)
			v := on(t, own, make([]byte, sharedSize))
			victim.join(t, verbs.ConnectConfig{Timeout: 14}, v)
			v.post(t, victim.to(v, verbs.OpWrite, 0, sharedSize/4))
			victim.kill()
			if err := v.qp.Destroy(); err != nil {
				t.Fatal(err)
			}
		} else {
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
			victim.kill()
		}
	}
	eventually(t, "the slots are free", func() bool { return s.server.Count().Slots == 2 })
	eventually(t, "the processes are forgotten", func() bool { return s.server.Count().Processes <= 2 })
	eventually(t, "the descriptors are closed", func() bool { return openDescriptors(t) <= before+slotsKept })
	eventually(t, "the names of killed programs are gone", func() bool {
		list, err := os.ReadDir(os.Getenv("SOFTRDMA_HOST_DIR"))
		return err == nil && len(list) == 3 // the daemon's device and two programs
	})
	exchange(t, p, a)
	again := openShared(t, name)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	p.end(t)
}

// slotsKept is the number of sockets that the daemon keeps for future programs, if victims
// overlap.
const slotsKept = 4

func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// When a daemon is killed, programs that share its address continue, but no others can join.
// The address is in use until they have ended.
func TestSharedAddressOutlivesItsDaemon(t *testing.T) {
	hostDirectory(t)
	d := daemontest.Start(t, "127.7.42.1")
	name := "shared:" + d.Socket()
	p := startHostPeer(t, peerConfig{Addr: name, Size: sharedSize, QPs: 1, Type: verbs.RC, Report: true})
	dev := openShared(t, name)
	a := on(t, dev, make([]byte, sharedSize))
	p.join(t, verbs.ConnectConfig{Timeout: 19}, a)
	exchange(t, p, a)
	d.Kill()
	exchange(t, p, a)
	if _, err := verbs.Open(name, verbs.Config{}); err == nil {
		t.Error("a slot of a daemon that was killed")
	}
	_, err := verbs.Open("127.7.42.1", verbs.Config{Shared: true})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), "127.7.42.1") {
		t.Errorf("the address while programs have it: %v", err)
	}
	p.end(t)
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	again := openDevice(t, "127.7.42.1", verbs.Config{Shared: true})
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A sender on a separate address may send packets to several programs in one batch. The
// program that receives it hands over those of the others.
func TestSharedAddressBatchesOfSeveralPrograms(t *testing.T) {
	_, name := shareAddress(t, "127.7.42.1")
	elsewhere := openDevice(t, "127.7.42.2", verbs.Config{})
	defer elsewhere.Close()
	for _, from := range []*verbs.Device{openShared(t, name), elsewhere} {
		to := []*verbs.Device{openShared(t, name), openShared(t, name)}
		var sides []*side
		for i := range 8 {
			a, b := on(t, from, make([]byte, 4096)), on(t, to[i%2], make([]byte, 4096))
			a.peer, b.peer = b, a
			ends{connect: verbs.ConnectConfig{Timeout: 12}}.join(t, a, b)
			sides = append(sides, a)
		}
		for round := range 100 {
			for _, a := range sides {
				fill(a.buf, uint64(round))
				for range 8 {
					w := a.write(0, 500)
					w.Flags = 0
					a.post(t, w)
				}
				a.post(t, a.write(0, len(a.buf)))
			}
			for _, a := range sides {
				if a.ok(t, verbs.WCWrite); !slices.Equal(a.buf, a.peer.buf) {
					t.Fatal("other bytes arrived")
				}
			}
		}
		stray := counter(to[0], "PACKET_SLOT") + counter(to[1], "PACKET_SLOT")
		if stray > 0 {
			t.Errorf("from %v: %d packets came to the wrong program", from.Addr(), stray)
		}
	}
}
