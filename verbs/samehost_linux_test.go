package verbs_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/verbs"
)

// hostDirectory gives the devices of a test a separate directory.
func hostDirectory(t testing.TB) string {
	t.Helper()
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_HOST_DIR", dir)
	return dir
}

// openMode opens a device that reaches others in the test through the network or memory.
func openMode(t testing.TB, addr string, mode verbs.SameHost) *verbs.Device {
	t.Helper()
	dev := openDevice(t, addr, verbs.Config{SameHost: mode, NoLoopback: true})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// on makes a side on an open device.
func on(t testing.TB, dev *verbs.Device, mem []byte) *side {
	t.Helper()
	s := &side{dev: dev, buf: mem}
	var err error
	if s.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: 1024}); err != nil {
		t.Fatal(err)
	}
	if s.mr, err = s.pd.RegisterMemory(s.buf, allRights); err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, MaxInline: 64}); err != nil {
		t.Fatal(err)
	}
	return s
}

// sameHostPair connects two sides through the memory path. Their buffers have size bytes,
// of AllocMemory if shared.
func sameHostPair(t testing.TB, mode verbs.SameHost, size int, shared bool) (a, b *side) {
	t.Helper()
	hostDirectory(t)
	mem := func() []byte {
		if shared {
			return alloc(t, size, verbs.AllocConfig{})
		}
		return make([]byte, size)
	}
	x, y := mem(), mem()
	a, b = on(t, openMode(t, "127.7.41.1", mode), x), on(t, openMode(t, "127.7.41.2", mode), y)
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	return a, b
}

func TestSameHostCarriesEveryOperation(t *testing.T) {
	for name, shared := range map[string]bool{"Go memory": false, "allocated memory": true} {
		t.Run(name, func(t *testing.T) {
			const size = 3 << 20
			a, b := sameHostPair(t, verbs.SameHostRequire, size, shared)
			for _, s := range []*side{a, b} {
				if p := s.qp.Path(); p != verbs.PathSameHost || s.qp.WhyNetwork() != nil {
					t.Fatalf("path %q, %v", p, s.qp.WhyNetwork())
				}
			}
			for i, n := range []int{1, 8, 4096, 65536, 1 << 20} {
				fill(a.buf[:n], uint64(i))
				for range 3 {
					a.post(t, a.write(0, n))
					a.ok(t, verbs.WCWrite)
				}
				if !slices.Equal(a.buf[:n], b.buf[:n]) {
					t.Fatalf("WRITE of %d bytes: other bytes arrived", n)
				}
				a.post(t, verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(2<<20, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.ok(t, verbs.WCRead)
				if !slices.Equal(a.buf[:n], a.buf[2<<20:2<<20+n]) {
					t.Fatalf("READ of %d bytes: other bytes arrived", n)
				}
				b.recv(t, 1, 1<<20, n)
				a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, n)}})
				a.ok(t, verbs.WCSend)
				if b.ok(t, verbs.WCRecv); !slices.Equal(a.buf[:n], b.buf[1<<20:1<<20+n]) {
					t.Fatalf("SEND of %d bytes: other bytes arrived", n)
				}
			}
			clear(b.buf[:8])
			a.post(t, verbs.SendWR{Op: verbs.OpFetchAdd, Add: 7, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if a.ok(t, verbs.WCFetchAdd); b.buf[0] != 7 {
				t.Fatalf("atomic: found %d", b.buf[0])
			}
		})
	}
}

func TestSameHostOffTakesTheNetwork(t *testing.T) {
	dir := hostDirectory(t)
	a, b := on(t, openMode(t, "127.7.41.1", verbs.SameHostOff), make([]byte, 64)), on(t, openMode(t, "127.7.41.2", verbs.SameHostOff), make([]byte, 64))
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	a.post(t, a.write(0, 8))
	a.ok(t, verbs.WCWrite)
	if p, why := a.qp.Path(), reasonOf(a.qp.WhyNetwork()); p != verbs.PathNetwork || why != "HOST_OFF" {
		t.Errorf("path %q, why %q", p, why)
	}
	if s := a.dev.SameHost(); s.Mode != verbs.SameHostOff || s.Socket != "" || reasonOf(s.Why) != "HOST_OFF" {
		t.Errorf("state %+v", s)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("published %v, %v", list, err)
	}
}

func TestSameHostRequiredFailsWithoutAPath(t *testing.T) {
	hostDirectory(t)
	a := on(t, openMode(t, "127.7.41.1", verbs.SameHostRequire), make([]byte, 64))
	b := on(t, openMode(t, "127.7.41.2", verbs.SameHostOff), make([]byte, 64))
	err := a.qp.Connect(a.qp.Endpoint(), b.qp.Endpoint(), verbs.ConnectConfig{})
	if reasonOf(err) != "HOST_UNPUBLISHED" {
		t.Errorf("connection to a device that is not published: %v", err)
	}
	if s := a.qp.State(); s == verbs.RTS {
		t.Error("the queue pair is connected")
	}
	_, err = a.pd.CreateAH(verbs.AddressVector{DGID: b.dev.GID()})
	if reasonOf(err) != "HOST_UNPUBLISHED" {
		t.Errorf("address handle of a device that is not published: %v", err)
	}
	if s := a.dev.SameHost(); s.Mode != verbs.SameHostRequire || s.Why != nil || !strings.HasPrefix(s.Socket, os.Getenv("SOFTRDMA_HOST_DIR")) {
		t.Errorf("state %+v", s)
	}
}

func TestSameHostRequiredNeedsADirectory(t *testing.T) {
	file := hostDirectory(t) + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTRDMA_HOST_DIR", file)
	dev, err := verbs.Open("127.7.41.1", verbs.Config{SameHost: verbs.SameHostRequire})
	if err == nil {
		_ = dev.Close()
	}
	if reasonOf(err) != "HOST_DIRECTORY" {
		t.Errorf("required: %v", err)
	}
	dev = openDevice(t, "127.7.41.1", verbs.Config{SameHost: verbs.SameHostAuto})
	defer dev.Close()
	if s := dev.SameHost(); s.Socket != "" || reasonOf(s.Why) != "HOST_DIRECTORY" {
		t.Errorf("automatic: %+v", s)
	}
}

func TestIWARPRefusesToRequireSameHost(t *testing.T) {
	dev, err := verbs.Open("iwarp:127.7.41.1", verbs.Config{SameHost: verbs.SameHostRequire})
	if err == nil {
		_ = dev.Close()
	}
	if reasonOf(err) != "HOST_TRANSPORT" {
		t.Errorf("required: %v", err)
	}
	auto := openIWARP(t, "127.7.41.1")
	defer auto.Close()
	if s := auto.SameHost(); s.Mode != verbs.SameHostAuto || reasonOf(s.Why) != "HOST_TRANSPORT" {
		t.Errorf("automatic: %+v", s)
	}
}

// A device that is closed and opened again is found again.
func TestSameHostPeerOpensAgain(t *testing.T) {
	a, b := sameHostPair(t, verbs.SameHostRequire, 4096, false)
	a.post(t, a.write(0, 4096))
	a.ok(t, verbs.WCWrite)
	if err := b.dev.Close(); err != nil {
		t.Fatal(err)
	}
	b = on(t, openMode(t, "127.7.41.2", verbs.SameHostRequire), b.buf)
	c := on(t, a.dev, make([]byte, 4096))
	c.peer, b.peer = b, c
	ends{}.join(t, c, b)
	c.post(t, c.write(0, 4096))
	c.ok(t, verbs.WCWrite)
	if p := c.qp.Path(); p != verbs.PathSameHost {
		t.Errorf("path %q", p)
	}
}

// A connection whose peer's device is closed fails as on a network.
func TestSameHostPeerThatClosesIsGone(t *testing.T) {
	a, b := sameHostPair(t, verbs.SameHostRequire, 4096, false)
	a.post(t, a.write(0, 8))
	a.ok(t, verbs.WCWrite)
	if err := b.dev.Close(); err != nil {
		t.Fatal(err)
	}
	a.post(t, a.write(0, 8))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.cq.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var wcs [1]verbs.WC
	if n, err := a.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].Status != verbs.RetryExcErr {
		t.Errorf("found %d completions, %v, %+v", n, err, wcs[0])
	}
}

func TestClosedSameHostDevicesLeakNothing(t *testing.T) {
	dir := hostDirectory(t)
	before := use()
	for range 5 {
		t.Run("", func(t *testing.T) {
			a, _ := sameHostPair(t, verbs.SameHostRequire, 1<<20, true)
			a.post(t, a.write(0, 1<<20))
			a.ok(t, verbs.WCWrite)
			_, _ = a.mr.Deregister(), a.peer.mr.Deregister()
		})
	}
	noLeak(t, before)
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left in the directory: %v, %v", list, err)
	}
}

// A device without a mode uses that of SetSameHost, or else that of the environment.
func TestSameHostModeOfTheProcess(t *testing.T) {
	if *overMemory || *overFabric {
		t.Skip("SKIPPED with -samehost and -infiniband: the tests name a mode, ports of a fabric have none")
	}
	hostDirectory(t)
	t.Cleanup(func() {
		if err := verbs.SetSameHost(""); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct{ environment, set, want verbs.SameHost }{
		{"", "", verbs.SameHostAuto},
		{verbs.SameHostOff, "", verbs.SameHostOff},
		{verbs.SameHostOff, verbs.SameHostRequire, verbs.SameHostRequire},
	} {
		t.Setenv("SOFTRDMA_SAME_HOST", string(c.environment))
		if err := verbs.SetSameHost(c.set); err != nil {
			t.Fatal(err)
		}
		dev := openDevice(t, "127.7.41.3", verbs.Config{})
		if got := dev.SameHost().Mode; got != c.want {
			t.Errorf("environment %q, set %q: mode %q, expected %q", c.environment, c.set, got, c.want)
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := verbs.SetSameHost("sometimes"); reasonOf(err) == "" {
		t.Errorf("a mode that does not exist: %v", err)
	}
	const absent = "no-such-user"
	if err := verbs.SetSameHost("", "root", absent); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("a user that does not exist: %v", err)
	}
	if dev, err := verbs.Open("127.7.41.3", verbs.Config{SameHostAllow: []string{absent}}); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("a user that does not exist, in a configuration: %v", err)
		if err == nil {
			_ = dev.Close()
		}
	}
	if err := verbs.SetSameHost(""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTRDMA_SAME_HOST", "sometimes")
	if dev, err := verbs.Open("127.7.41.3", verbs.Config{}); err == nil || !strings.Contains(err.Error(), "SOFTRDMA_SAME_HOST") {
		t.Errorf("a mode in the environment that does not exist: %v", err)
		if err == nil {
			_ = dev.Close()
		}
	}
}
