package samehost

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

func TestDevicesConnect(t *testing.T) {
	a, b := pair(t, [2]int{2, 3})
	ca, cb := only(t, a), only(t, b)
	if ca.Peer != b.cfg.Local || cb.Peer != a.cfg.Local || ca.Lanes != 3 || cb.Lanes != 2 {
		t.Errorf("channels to %v with %d lanes and %v with %d", ca.Peer, ca.Lanes, cb.Peer, cb.Lanes)
	}
	for i := range 2 {
		for k := range 3 {
			if err := transfer(ca, cb, i, k, []byte("forth")); err != nil {
				t.Errorf("lane %d to %d: %v", i, k, err)
			}
			if err := transfer(cb, ca, k, i, []byte("back")); err != nil {
				t.Errorf("lane %d to %d: %v", k, i, err)
			}
		}
	}
	for k := range 3 {
		ca.Far.Ring(k)
		rang := 0
		b.bells[k].Rung(func(owner any) {
			if owner == cb.Owner {
				rang++
			}
		})
		if rang != 1 {
			t.Errorf("the bell of lane %d rang %d times", k, rang)
		}
	}
	if w := a.Why(b.cfg.Local); w.Reason != reason.None {
		t.Errorf("a connected peer has the reason %v", w)
	}
}

func TestReachAgainUsesTheChannel(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	only(t, b)
	for range 3 {
		if err := a.Reach(b.cfg.Local, timeLimit); err != nil {
			t.Error(err)
		}
		if err := b.Reach(a.cfg.Local, timeLimit); err != nil {
			t.Error(err)
		}
	}
	for _, d := range []*device{a, b} {
		if n, _ := d.seen(); n != 1 {
			t.Errorf("%d channels, expected one", n)
		}
	}
}

func TestPeersReadEachOthersMemory(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	ca, cb := only(t, a), only(t, b)
	if !ca.PeerReads() || !cb.PeerReads() {
		t.Fatal("a process cannot read its own memory")
	}
	want := bytes.Repeat([]byte("memory"), 20000)
	got := make([]byte, len(want))
	if err := a.pull(ca, got, uint64(uintptr(unsafe.Pointer(&want[0])))); err != nil || !bytes.Equal(got, want) {
		t.Errorf("pulled other bytes: %v", err)
	}
	if err := b.pull(cb, got, 4096); err != unix.EFAULT {
		t.Errorf("pulled from an address without memory: %v", err)
	}
	if !ca.PeerReads() {
		t.Error("a wrong address ends reading")
	}
	n := testing.AllocsPerRun(100, func() { _ = a.pull(ca, got[:64], uint64(uintptr(unsafe.Pointer(&want[0])))) })
	if n != 0 {
		t.Errorf("%v allocations in Pull", n)
	}
}

func TestSegmentIsOfferedMappedAndWithdrawn(t *testing.T) {
	var lane sync.Mutex // of b
	barriers := make(chan struct{}, 8)
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2, Barrier: func() {
		lane.Lock()
		defer lane.Unlock()
		barriers <- struct{}{}
	}})
	segment := func(c *hostmem.Channel, id uint32) string {
		lane.Lock()
		defer lane.Unlock()
		return string(c.Far.Segment(id))
	}
	if err := a.Reach(b.cfg.Local, timeLimit); err != nil {
		t.Fatal(err)
	}
	ca, cb := only(t, a), only(t, b)
	g := newSegment(t, 8192)
	copy(g.Mem[5000:], "shared")
	before := holding(t)
	for range 3 { // a segment goes and comes again
		ca.Far.Offer(g)
		ca.Far.Offer(g)
		eventually(t, "the segment is mapped", func() bool { return ca.Far.Offered(g.ID) })
		if m := segment(cb, g.ID); m != string(g.Mem) {
			t.Fatalf("%d other bytes", len(m))
		}
		lane.Lock()
		n := testing.AllocsPerRun(100, func() { ca.Far.Offer(g); ca.Far.Offered(g.ID); cb.Far.Segment(g.ID) })
		lane.Unlock()
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
		ca.Far.Withdraw(g.ID)
		if ca.Far.Offered(g.ID) {
			t.Error("a withdrawn segment counts as mapped")
		}
		<-barriers
		eventually(t, "the segment is unmapped", func() bool { return segment(cb, g.ID) == "" })
	}
	unchanged(t, before)
	if cb.Far.Segment(g.ID+1) != nil || ca.Far.Offered(g.ID+1) {
		t.Error("an unknown segment is mapped")
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(timeLimit); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// The peer maps a segment for reading only, and its descriptor gives it no more.
func TestSegmentDescriptorIsReadOnly(t *testing.T) {
	g := newSegment(t, 4096)
	fd := readOnly(g)
	if fd < 0 {
		t.Fatal("no descriptor")
	}
	defer unix.Close(fd)
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("the descriptor can be mapped for writing")
	}
	if _, err := unix.Write(fd, []byte{1}); err == nil {
		t.Error("the descriptor can be written")
	}
	g.Close()
	if fd := readOnly(g); fd >= 0 {
		t.Errorf("a closed segment has descriptor %d", fd)
	}
}

func TestCloseEndsBothEnds(t *testing.T) {
	before := holding(t)
	dir := t.TempDir()
	a, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Reach(b.cfg.Local, timeLimit); err != nil {
		t.Fatal(err)
	}
	g := newSegment(t, 4096)
	only(t, a).Far.Offer(g)
	only(t, b)
	a.close()
	if err := b.until(func(_, detached int) bool { return detached == 1 }); err != nil {
		t.Error(err)
	}
	eventually(t, "the reason is kept", func() bool { return b.Why(a.cfg.Local).Reason == reason.HostClosed })
	wantReason(t, b.Reach(a.cfg.Local, timeLimit), reason.HostUnpublished)
	wantReason(t, a.Reach(b.cfg.Local, timeLimit), reason.DeviceClosed)
	b.close()
	if err := a.Host.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left in the directory: %v", list)
	}
	g.Close()
	before.descriptors++ // the segment's
	before.mappings++
	unchanged(t, before)
}

// Memory stays mapped until Detach has returned.
func TestMemoryStaysDuringDetach(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	ca := only(t, a)
	only(t, b)
	g := newSegment(t, 4096)
	only(t, b).Far.Offer(g)
	eventually(t, "the segment is mapped", func() bool { return ca.Far.Segment(g.ID) != nil })
	m := ca.Far.Segment(g.ID)
	used := make(chan error, 1)
	a.mu.Lock()
	a.inDetach = func() {
		s := ca.Out.Sender(0, 0)
		var err error
		if !s.Copy(&hostmem.Head{}, nil, [][]byte{m}, 8) {
			err = os.ErrInvalid
		}
		ca.Far.Ring(0)
		used <- err
	}
	a.mu.Unlock()
	b.close()
	if err := <-used; err != nil {
		t.Error(err)
	}
}

func TestFarCloseEndsTheChannelAndReachMakesAnother(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	c := only(t, a)
	c.Far.Close()
	c.Far.Close()
	for _, d := range []*device{a, b} {
		if err := d.until(func(_, detached int) bool { return detached == 1 }); err != nil {
			t.Fatal(err)
		}
	}
	if w := a.Why(b.cfg.Local); w.Reason != reason.None {
		t.Errorf("a channel that this end has closed has ended by %v", w)
	}
	if w := b.Why(a.cfg.Local); w.Reason != reason.HostClosed {
		t.Errorf("a channel that the peer has closed has ended by %v", w)
	}
	if err := a.Reach(b.cfg.Local, timeLimit); err != nil {
		t.Fatal(err)
	}
	if err := transfer(only(t, a), only(t, b), 0, 0, []byte("again")); err != nil {
		t.Error(err)
	}
}

func TestConcurrentReachSharesOneAttempt(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := a.Reach(b.cfg.Local, timeLimit); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, _ := a.seen(); n != 1 {
		t.Errorf("%d channels, expected one", n)
	}
}

// Both ends dial at the same time: each channel that results works.
func TestBothEndsDial(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	for round := range 20 {
		var wg sync.WaitGroup
		for _, d := range []struct{ from, to *device }{{a, b}, {b, a}} {
			wg.Go(func() {
				if err := d.from.Reach(d.to.cfg.Local, timeLimit); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		eventually(t, "both ends have the same channels", func() bool {
			atA, _ := a.seen()
			atB, _ := b.seen()
			return atA == atB
		})
		a.mu.Lock()
		for _, c := range a.channels {
			c.Far.Close()
		}
		a.mu.Unlock()
		for _, d := range []*device{a, b} {
			if err := d.until(func(attached, detached int) bool { return attached == detached }); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
}

func TestSameProcessNeedsRequire(t *testing.T) {
	for _, c := range []struct {
		name string
		mode [2]Mode
		want reason.Reason
	}{
		{"both auto", [2]Mode{Auto, Auto}, reason.HostSameProcess},
		{"dialer requires", [2]Mode{Require, Auto}, reason.None},
		{"acceptor requires", [2]Mode{Auto, Require}, reason.None},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Mode: c.mode[0]})
			b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Mode: c.mode[1]})
			err := a.Reach(b.cfg.Local, timeLimit)
			if c.want != reason.None {
				wantReason(t, err, c.want)
				if w := a.Why(b.cfg.Local); w.Reason != c.want {
					t.Errorf("kept %v", w)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	open := func(cfg Config) error {
		d, err := newDevice(cfg)
		if err == nil {
			d.close()
		}
		return err
	}
	before := holding(t)
	local := addr("127.0.0.1:4791")
	wantReason(t, open(Config{Local: local, Mode: Off}), reason.HostOff)
	wantReason(t, open(Config{Local: local, Lanes: MaxLanes + 1}), reason.Argument)
	wantReason(t, open(Config{Local: local, Dir: "/proc/nothing/here"}), reason.HostDirectory)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantReason(t, open(Config{Local: local, Dir: file}), reason.HostDirectory)
	wide := t.TempDir()
	if err := os.Chmod(wide, 0o777); err != nil {
		t.Fatal(err)
	}
	wantReason(t, open(Config{Local: local, Dir: wide}), reason.HostDirectoryMode)
	wantReason(t, open(Config{Local: local, Dir: t.TempDir(), Allow: []string{"no such user"}}), reason.Argument)
	if os.Geteuid() == 0 {
		other := t.TempDir()
		if err := os.Chown(other, 12345, -1); err != nil {
			t.Fatal(err)
		}
		wantReason(t, open(Config{Local: local, Dir: other}), reason.HostDirectoryOwner)
	}
	unchanged(t, before)
}

func TestDirectoryIsMadePrivateAndSharedOnesAreAccepted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "host")
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory is %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, d.Name())); err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket is %v, %v", st, err)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	d = openDevice(t, Config{Dir: shared, Local: addr("127.0.0.1:4791"), Allow: []string{"1"}})
	if st, err := os.Stat(filepath.Join(shared, d.Name())); err != nil || st.Mode() != os.ModeSocket|0o666 {
		t.Errorf("socket is %v, %v", st, err)
	}
}

func TestDefaultDirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/somebody")
	t.Setenv("SOFTRDMA_HOST_DIR", "")
	want := "/run/somebody/softrdma/host"
	if os.Geteuid() == 0 {
		want = "/run/softrdma/host"
	}
	if got := defaultDirectory(); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	t.Setenv("SOFTRDMA_HOST_DIR", "/elsewhere")
	if got := defaultDirectory(); got != "/elsewhere" {
		t.Errorf("%q, expected /elsewhere", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("SOFTRDMA_HOST_DIR", "")
	if got, want := defaultDirectory(), fmt.Sprintf("/tmp/softrdma-host-%d", os.Geteuid()); os.Geteuid() != 0 && got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// A long path of the directory does not matter, although a socket's path is short.
func TestLongDirectory(t *testing.T) {
	dir := t.TempDir()
	for range 4 {
		dir = filepath.Join(dir, "a-directory-with-a-name-of-some-fifty-characters-ok")
	}
	a := openDevice(t, Config{Dir: dir, Local: addr("[fe80::1111:2222:3333:4444%interface-with-]:65535"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("[fe80::ffff:ffff:ffff:ffff%interface-with-]:65535"), Stack: 2})
	if err := b.Reach(a.cfg.Local, timeLimit); err != nil {
		t.Error(err)
	}
}

func TestStaleNames(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	local := addr("127.0.0.2:4791")
	wantReason(t, a.Reach(local, timeLimit), reason.HostUnpublished)

	// A process that was killed leaves its socket.
	d, err := openDirectory(dir, a.users)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	left := name{kind: "rocev2", local: local, space: a.name.space, since: 1}
	l, err := d.listen(left, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	wantReason(t, a.Reach(local, timeLimit), reason.HostStale)

	// A device with the same address takes over, and removes it.
	b := openDevice(t, Config{Dir: dir, Local: local, Stack: 2})
	if _, err := os.Lstat(filepath.Join(dir, left.String())); !os.IsNotExist(err) {
		t.Errorf("the stale socket is there: %v", err)
	}
	if err := a.Reach(local, timeLimit); err != nil {
		t.Error(err)
	}
	b.close()
	if err := a.until(func(_, detached int) bool { return detached == 1 }); err != nil {
		t.Fatal(err)
	}
	wantReason(t, a.Reach(local, timeLimit), reason.HostUnpublished)
}

// A device that closes late does not remove the socket of the next one.
func TestEqualNameIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	local := addr("127.0.0.2:4791")
	old := openDevice(t, Config{Dir: dir, Local: local, Stack: 2})
	b := openDevice(t, Config{Dir: dir, Local: local, Stack: 3})
	old.close()
	if err := a.Reach(local, timeLimit); err != nil {
		t.Fatal(err)
	}
	only(t, b)
}

func TestManyPeersLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	before := holding(t)
	for round := range 4 {
		var peers []*device
		for i := range 50 {
			d, err := newDevice(Config{Dir: dir, Local: addr(fmt.Sprintf("127.0.1.%d:4791", i+1)), Stack: uint64(i + 2)})
			if err != nil {
				t.Fatal(err)
			}
			peers = append(peers, d)
			if i%2 == 0 {
				err = a.Reach(d.cfg.Local, timeLimit)
			} else {
				err = d.Reach(a.cfg.Local, timeLimit)
			}
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		for _, d := range peers {
			d.close()
		}
		if err := a.until(func(attached, detached int) bool { return detached == attached }); err != nil {
			t.Fatal(err)
		}
	}
	unchanged(t, before)
	a.Host.mu.Lock()
	defer a.Host.mu.Unlock()
	if n := len(a.Host.channels) + len(a.conns) + a.total.channels + a.total.pending; n != 0 {
		t.Errorf("%d things of peers are left", n)
	}
}

func TestCloseWhileDialing(t *testing.T) {
	before := holding(t)
	dir := t.TempDir()
	for range 30 {
		a, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
		if err != nil {
			t.Fatal(err)
		}
		b, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = a.Reach(b.cfg.Local, timeLimit) })
		wg.Go(func() { _ = b.Reach(a.cfg.Local, timeLimit) })
		wg.Go(a.close)
		wg.Go(b.close)
		wg.Wait()
		if a.attached != a.detached || b.attached != b.detached {
			t.Fatalf("%d attached, %d detached; %d and %d", a.attached, a.detached, b.attached, b.detached)
		}
	}
	unchanged(t, before)
}

// BenchmarkReachRemotePeer is what each first contact with a peer of another host costs.
func BenchmarkReachRemotePeer(b *testing.B) {
	dir := b.TempDir()
	var a *device
	for i := range 50 {
		d, err := newDevice(Config{Dir: dir, Local: addr(fmt.Sprintf("127.0.0.%d:4791", i+1))})
		if err != nil {
			b.Fatal(err)
		}
		defer d.close()
		a = d
	}
	for b.Loop() {
		if err := a.Reach(addr("10.0.0.1:4791"), timeLimit); err == nil {
			b.Fatal("reached")
		}
	}
}

// BenchmarkReachLocalPeer makes and ends a channel.
func BenchmarkReachLocalPeer(b *testing.B) {
	dir := b.TempDir()
	a, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer a.close()
	p, err := newDevice(Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	n := 0
	for b.Loop() {
		if err := a.Reach(p.cfg.Local, timeLimit); err != nil {
			b.Fatal(err)
		}
		n++
		a.latest().Far.Close()
		for _, d := range []*device{a, p} {
			if err := d.until(func(attached, detached int) bool { return attached == n && detached == n }); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestPublished(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791")})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Kind: "RoCE v1"})
	for _, s := range []string{"notes", "rocev2_127.0.0.3_4791_4-1_1"} {
		if err := os.WriteFile(filepath.Join(dir, s), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, list, err := Published(dir)
	want := []Device{{"rocev1", b.cfg.Local, true}, {"rocev2", a.cfg.Local, true}, {"rocev2", addr("127.0.0.3:4791"), false}}
	if err != nil || path != dir || !slices.Equal(list, want) {
		t.Errorf("%q lists %v, %v; expected %v", path, list, err, want)
	}
	missing := filepath.Join(dir, "missing")
	_, _, err = Published(missing)
	wantReason(t, err, reason.HostDirectory)
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("made the directory: %v", err)
	}
}

func TestMostLanesConnect(t *testing.T) {
	a, b := pair(t, [2]int{MaxLanes, MaxLanes})
	ca, cb := only(t, a), only(t, b)
	if err := transfer(ca, cb, MaxLanes-1, MaxLanes-1, []byte("last")); err != nil {
		t.Error(err)
	}
	ca.Far.Ring(MaxLanes - 1)
	rang := false
	b.bells[MaxLanes-1].Rung(func(owner any) { rang = owner == cb.Owner })
	if !rang {
		t.Error("the bell of the last lane did not ring")
	}
}

// Another user could make the directory in /tmp before this one, with any mode.
func TestPublicDirectoryMustBeOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can make directories of other users")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own := &users{own: 0, mapped: true}
	if err := (&directory{path: dir, file: f}).check(own); err != nil {
		t.Errorf("a shared directory is refused: %v", err)
	}
	d := &directory{path: publicDirectory(), file: f}
	wantReason(t, d.check(own), reason.HostDirectoryMode)
	if err := os.Chmod(dir, 0o700|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	wantReason(t, d.check(own), reason.HostDirectoryOwner)
	if err := os.Chown(dir, 0, -1); err != nil {
		t.Fatal(err)
	}
	if err := d.check(own); err != nil {
		t.Errorf("the own directory is refused: %v", err)
	}
}

// Names that killed processes have left go with time, whichever addresses they are of.
func TestNamesOfOtherAddressesArePruned(t *testing.T) {
	dir := t.TempDir()
	d, err := openDirectory(dir, &users{own: uint32(os.Geteuid())})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	in, err := ownSpace()
	if err != nil {
		t.Fatal(err)
	}
	of := func(i int) name {
		return name{kind: kindText("RoCE v2"), local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, 1, byte(i)}), 4791), space: in, since: uint64(i)}
	}
	for i := range 20 {
		l, err := d.listen(of(i+1), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			defer l.Close()
			continue
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	for range 1000 { // each call looks at some
		d.replaceStale(of(99))
		if all, err := d.list(); err != nil || len(all) == 1 {
			break
		}
	}
	if all, err := d.list(); err != nil || len(all) != 1 || all[0] != of(1).String() {
		t.Errorf("found %d names, %v; expected the living device's alone", len(all), err)
	}
}
