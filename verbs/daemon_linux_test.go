package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/uverbs"
	"softrdma/verbs"
)

func TestProgramReachesADaemonOfAnotherProcess(t *testing.T) {
	d := startDaemon(t, "127.7.20.1", "127.7.20.2")
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			a, b := d.pair(t, shared)
			if !a.dev.Daemon() || a.dev.Name() != "rxe0" || b.dev.Name() != "rxe1" || a.dev.Addr().String() != "127.7.20.1:4791" {
				t.Errorf("found %v on %v and %v", a.dev.Name(), a.dev.Addr(), b.dev.Name())
			}
			if path := a.qp.Path(); path != verbs.PathSameProcess {
				t.Errorf("path %q between two devices of the daemon", path)
			}
			fill(a.buf, 1)
			for _, n := range []int{0, 1, 8, 4096, 100_000, len(a.buf)} {
				clear(b.buf)
				a.post(t, a.write(0, n))
				a.ok(t, verbs.WCWrite)
				if !bytes.Equal(b.buf[:n], a.buf[:n]) {
					t.Fatalf("the memory differs after a WRITE of %d bytes", n)
				}
			}
			clear(a.buf)
			read := a.write(0, 70_000)
			read.Op = verbs.OpRead
			a.post(t, read)
			a.ok(t, verbs.WCRead)
			if !bytes.Equal(b.buf[:70_000], a.buf[:70_000]) {
				t.Fatal("the memory differs after a READ")
			}
			if a, b := a.dev.Close(), b.dev.Close(); a != nil || b != nil {
				t.Error(a, b)
			}
		})
	}
}

func TestRequestsOnADaemonAllocateNothing(t *testing.T) {
	d := startDaemon(t, "127.7.20.3", "127.7.20.4")
	a, _ := d.pair(t, true)
	wrs := []verbs.SendWR{a.write(0, 8)}
	var wcs [4]verbs.WC
	once := func() {
		if err := a.qp.PostSend(wrs...); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			var err error
			if n, err = a.cq.Poll(wcs[:]); err != nil || n > 0 && wcs[0].Status != verbs.Success {
				t.Fatal(err, wcs[0].Err())
			}
		}
	}
	once()
	if n := testing.AllocsPerRun(1000, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// When a daemon is killed in the middle of a transfer, its devices end, every waiting call
// returns, and nothing is left behind.
func TestDaemonThatIsKilledEndsItsDevices(t *testing.T) {
	d := startDaemon(t, "127.7.20.5", "127.7.20.6")
	before := use()
	a, b := d.pair(t, false)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	idle, err := a.dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 2)
	go func() { waits <- idle.Wait(ctx) }()
	go func() {
		if e, err := b.dev.NextEvent(ctx); err != nil || e.Type != verbs.EventDeviceFatal {
			t.Errorf("event %v, %v", e, err)
		}
		_, err := b.dev.NextEvent(ctx)
		waits <- err
	}()
	stop := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			if err := a.qp.PostSend(a.write(0, len(a.buf))); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				stop <- err
				return
			}
			var wcs [16]verbs.WC
			if _, err := a.cq.Poll(wcs[:]); err != nil {
				stop <- err
				return
			}
			if n == 20 {
				close(begun)
			}
		}
	}()
	<-begun
	d.Kill()
	for _, c := range []chan error{stop, waits, waits} {
		select {
		case err := <-c:
			if !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("expected ErrClosed, found %v", err)
			}
		case <-ctx.Done():
			t.Fatal("somebody still waits")
		}
	}
	event(t, a.dev, verbs.EventDeviceFatal)
	if err := a.qp.PostSend(a.write(0, 8)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("post: %v", err)
	}
	if _, err := a.dev.AllocPD(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("alloc PD: %v", err)
	}
	if s := a.qp.State(); s != verbs.Reset {
		t.Errorf("state %v", s)
	}
	for name, end := range map[string]func() error{
		"QP": a.qp.Destroy, "MR": a.mr.Deregister, "CQ": idle.Destroy, "device": a.dev.Close, "the other device": b.dev.Close,
	} {
		if err := end(); err != nil {
			t.Errorf("end of %s: %v", name, err)
		}
	}
	noLeak(t, before)
}

// A daemon that ends in order first flushes posted requests.
func TestDaemonThatEndsFlushesWhatWasPosted(t *testing.T) {
	d := startDaemon(t, "127.7.20.7", "127.7.20.8")
	a, _ := d.pair(t, false)
	a.recv(t, 77, 0, 64)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	event(t, a.dev, verbs.EventDeviceFatal)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.cq.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if wc := a.one(t); wc.WRID != 77 || wc.Status != verbs.WRFlushErr {
		t.Errorf("found %+v", wc)
	}
	if err := a.cq.Wait(ctx); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("then: %v", err)
	}
}

func TestOpenOfADaemonSaysWhatIsWrong(t *testing.T) {
	s := serve(t, openInProcess(t, "127.7.20.9", verbs.Config{}))
	for _, c := range []struct {
		name string
		cfg  verbs.Config
		want string
		is   error
	}{
		{s.name() + "none", verbs.Config{}, "no daemon listens on " + strings.TrimPrefix(s.name(), "daemon:") + "none", syscall.ENOENT},
		{s.name() + "/rxe7", verbs.Config{}, fmt.Sprintf(`no device "rxe7", it serves: rxe0 %v (`, s.dev.Addr().Addr()), nil},
		{s.name(), verbs.Config{Lanes: 2, MTU: 256}, "found Lanes, MTU", errors.ErrUnsupported},
	} {
		_, err := verbs.Open(c.name, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWhatADaemonsDeviceLacksIsRefused(t *testing.T) {
	s := serve(t, openInProcess(t, "127.7.20.10", verbs.Config{}))
	d := s.open(t)
	_, capture := d.Capture(io.Discard)
	_, huge := verbs.AllocMemory(1, verbs.AllocConfig{Device: d, HugePages: true})
	_, again := uverbs.Serve(uverbs.Config{Devices: []*verbs.Device{d}, Dir: t.TempDir()})
	for what, err := range map[string]error{"capture": capture, "huge pages": huge, "a daemon of it": again} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSendSGE: 256}); err == nil || !strings.Contains(err.Error(), "128 sends of 256 entries") {
		t.Errorf("more entries than the daemon allows: %v", err)
	}
}

// refusedWrite makes a WRITE with a key that b does not have. The completion has the reason,
// and b's event names the key or does not.
func refusedWrite(t *testing.T, a, b *side, reason string, told bool) {
	t.Helper()
	w := a.write(0, 8)
	w.RKey ^= 1 << 20
	a.post(t, w)
	if wc := a.one(t); wc.Status != verbs.RemAccessErr || wc.Reason() != reason {
		t.Errorf("found %v, %s", wc.Status, wc.Reason())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		e, err := b.dev.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == verbs.EventQPAccessErr {
			if e.QP != b.qp || strings.Contains(e.String(), "key") != told {
				t.Errorf("found %v", e)
			}
			return
		}
	}
}

// Names and reasons of a daemon's device are equal to those of a device of this process.
func TestDaemonsReasonsAreNamed(t *testing.T) {
	s := serve(t, openInProcess(t, "127.7.20.11", verbs.Config{}))
	a := s.side(t)
	b := s.side(t)
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	refusedWrite(t, a, b, "NAK_REMOTE_ACCESS", true)
}

func TestCountersOfADaemonsDeviceAreTheDaemons(t *testing.T) {
	s := serve(t, openInProcess(t, "127.7.20.21", verbs.Config{}))
	d := s.open(t)
	if all := maps.Collect(d.Counters()); len(all) != 0 {
		t.Errorf("before anything was refused: %v", all)
	}
	given := make(map[string]uint64)
	for r := reason.None + 1; r < reason.Count; r++ { // more than one answer holds
		for range r % 3 {
			registry.Adapter(s.dev).Trace.Refuse(0, reason.Detail{Reason: r})
			given[r.String()]++
		}
	}
	if all := maps.Collect(d.Counters()); !maps.Equal(all, given) {
		t.Errorf("found %v, expected %v", all, given)
	}
	for range d.Counters() {
		break // a caller that has seen enough gets no more
	}
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	if all := maps.Collect(d.Counters()); len(all) != 0 {
		t.Errorf("of a daemon that has ended: %v", all)
	}
}

// A daemon of another version may number reasons differently.
func TestReasonsOfAnotherVersionAreLeftOut(t *testing.T) {
	a, b := startDaemon(t, "127.7.20.16", "127.7.20.17", otherReasons).pair(t, false)
	refusedWrite(t, a, b, "NONE", false)
	if all := maps.Collect(b.dev.Counters()); len(all) != 0 {
		t.Errorf("its counters are named %v", all)
	}
}

// Devices with other ports work through the daemon, also to a device of this process.
func TestDaemonsDeviceTalksBetweenOtherPorts(t *testing.T) {
	a := serve(t, openInProcess(t, "127.7.20.18:4795", verbs.Config{NoLoopback: true})).side(t)
	b := ends{size: len(a.buf), qp: verbs.QPConfig{Type: verbs.RC}}.side(t, "127.7.20.19:4796")
	if p := a.qp.Endpoint().UDPPort; p != 4795 {
		t.Fatalf("port %d", p)
	}
	a.peer, b.peer = b, a
	ends{}.join(t, a, b)
	for _, s := range []*side{a, b} {
		fill(s.buf, 3)
		s.post(t, s.write(0, 10_000))
		s.ok(t, verbs.WCWrite)
		if !bytes.Equal(s.buf[:10_000], s.peer.buf[:10_000]) {
			t.Error("other bytes came")
		}
		clear(s.buf)
		clear(s.peer.buf)
	}
	var ud [2]*verbs.QP
	for i, s := range []*side{a, b} {
		var err error
		if ud[i], err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: s.cq}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(ud[i].ToInit(verbs.InitAttr{QKey: 7}), ud[i].ToRTR(verbs.RTRAttr{}), ud[i].ToRTS(verbs.RTSAttr{})); err != nil {
			t.Fatal(err)
		}
	}
	ah, err := a.pd.CreateAH(verbs.AddressVector{DGID: b.dev.GID(), UDPPort: 4796})
	if err != nil {
		t.Fatal(err)
	}
	if err := ud[1].PostRecv(verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 100)}}); err != nil {
		t.Fatal(err)
	}
	copy(a.buf, "datagram")
	w := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, AH: ah, RemoteQPN: ud[1].Number(), RemoteQKey: 7}
	if err := ud[0].PostSend(w); err != nil {
		t.Fatal(err)
	}
	a.ok(t, verbs.WCSend)
	b.ok(t, verbs.WCRecv)
	if string(b.buf[40:48]) != "datagram" {
		t.Errorf("found %q", b.buf[40:48])
	}
}

// BenchmarkDaemonWrite measures a WRITE between two devices of a daemon, from posting to
// completion, with memory that the daemon copies and with memory that it also maps.
func BenchmarkDaemonWrite(b *testing.B) {
	d := startDaemon(b, "127.7.20.12", "127.7.20.13")
	for _, shared := range []bool{false, true} {
		for _, n := range []int{8, 4096, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("shared=%v/%d", shared, n), func(b *testing.B) {
				x, _ := d.pair(b, shared)
				clear(x.buf)
				clear(x.peer.buf)
				wrs := []verbs.SendWR{x.write(0, n)}
				var wcs [4]verbs.WC
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := x.qp.PostSend(wrs...); err != nil {
						b.Fatal(err)
					}
					for n := 0; n == 0; {
						if n, _ = x.cq.Poll(wcs[:]); n > 0 && wcs[0].Status != verbs.Success {
							b.Fatal(wcs[0].Err())
						}
					}
				}
			})
		}
	}
}
