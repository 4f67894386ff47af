package samehost

import (
	"fmt"
	"os"
	"sync"
	"testing"

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
	if w := a.Why(b.cfg.Local, 0); w.Reason != reason.None {
		t.Errorf("a connected peer has the reason %v", w)
	}
}

func TestReachAgainUsesTheChannel(t *testing.T) {
	a, b := pair(t, [2]int{1, 1})
	only(t, b)
	for range 3 {
		if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
			t.Error(err)
		}
		if err := b.Reach(a.cfg.Local, 0, timeLimit); err != nil {
			t.Error(err)
		}
	}
	for _, d := range []*device{a, b} {
		if n, _ := d.seen(); n != 1 {
			t.Errorf("%d channels, expected one", n)
		}
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
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	g := newSegment(t, 4096)
	only(t, a).Far.Offer(g)
	only(t, b)
	a.close()
	if err := b.until(func(_, detached int) bool { return detached == 1 }); err != nil {
		t.Error(err)
	}
	eventually(t, "the reason is kept", func() bool { return b.Why(a.cfg.Local, 0).Reason == reason.HostClosed })
	wantReason(t, b.Reach(a.cfg.Local, 0, timeLimit), reason.HostUnpublished)
	wantReason(t, a.Reach(b.cfg.Local, 0, timeLimit), reason.DeviceClosed)
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
	if w := a.Why(b.cfg.Local, 0); w.Reason != reason.None {
		t.Errorf("a channel that this end has closed has ended by %v", w)
	}
	if w := b.Why(a.cfg.Local, 0); w.Reason != reason.HostClosed {
		t.Errorf("a channel that the peer has closed has ended by %v", w)
	}
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
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
			if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, _ := a.seen(); n != 1 {
		t.Errorf("%d channels, expected one", n)
	}
}

// Both ends dial at the same time. Each resulting channel works.
func TestBothEndsDial(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	for round := range 20 {
		var wg sync.WaitGroup
		for _, d := range []struct{ from, to *device }{{a, b}, {b, a}} {
			wg.Go(func() {
				if err := d.from.Reach(d.to.cfg.Local, 0, timeLimit); err != nil {
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
			err := a.Reach(b.cfg.Local, 0, timeLimit)
			if c.want != reason.None {
				wantReason(t, err, c.want)
				if w := a.Why(b.cfg.Local, 0); w.Reason != c.want {
					t.Errorf("kept %v", w)
				}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
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
				err = a.Reach(d.cfg.Local, 0, timeLimit)
			} else {
				err = d.Reach(a.cfg.Local, 0, timeLimit)
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
		wg.Go(func() { _ = a.Reach(b.cfg.Local, 0, timeLimit) })
		wg.Go(func() { _ = b.Reach(a.cfg.Local, 0, timeLimit) })
		wg.Go(a.close)
		wg.Go(b.close)
		wg.Wait()
		if a.attached != a.detached || b.attached != b.detached {
			t.Fatalf("%d attached, %d detached; %d and %d", a.attached, a.detached, b.attached, b.detached)
		}
	}
	unchanged(t, before)
}

// BenchmarkReachRemotePeer measures the cost of a first contact with a peer on another host.
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
		if err := a.Reach(addr("10.0.0.1:4791"), 0, timeLimit); err == nil {
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
		if err := a.Reach(p.cfg.Local, 0, timeLimit); err != nil {
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
