package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/registry"
	"softrdma/verbs"
)

// fast is a retry configuration that fails within a second on a network: 8 times 67 ms.
var fast = verbs.ConnectConfig{Timeout: 14, RetryCnt: 7}

// openHost opens a device of this process whose peers are other processes.
func openHost(t testing.TB, addr string, cfg verbs.Config) *verbs.Device {
	t.Helper()
	cfg.NoLoopback = true
	dev := openDevice(t, addr, cfg)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// hostSide makes a side whose memory peers can map, or read by a system call.
func hostSide(t testing.TB, dev *verbs.Device, size int, shared bool) *side {
	t.Helper()
	mem := make([]byte, size)
	if shared {
		mem = alloc(t, size, verbs.AllocConfig{})
	}
	s := on(t, dev, mem)
	t.Cleanup(func() { _ = s.mr.Deregister() }) // before the memory is freed
	return s
}

// stream posts requests until one fails, and returns that completion. It counts the successful
// ones.
func (s *side) stream(t testing.TB, depth int, done *atomic.Int64, next func(i int) verbs.SendWR) verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for i, open := 0, 0; ; {
		for ; open < depth; open, i = open+1, i+1 {
			if err := s.qp.PostSend(next(i)); err != nil {
				t.Errorf("post: %v", err)
				return verbs.WC{}
			}
		}
		var wcs [16]verbs.WC
		n, err := s.cq.Poll(wcs[:])
		if err == nil && n == 0 {
			err = s.cq.Wait(ctx)
		}
		if err != nil {
			t.Errorf("wait: %v", err)
			return verbs.WC{}
		}
		for _, wc := range wcs[:n] {
			if wc.Status != verbs.Success {
				return wc
			}
			open--
			done.Add(1)
		}
	}
}

// streams runs stream in another goroutine, which ends before the test's memory is unmapped,
// even if the test fails.
func (s *side) streams(t testing.TB, depth int, done *atomic.Int64, next func(i int) verbs.SendWR) <-chan verbs.WC {
	failed := make(chan verbs.WC, 1)
	var streaming sync.WaitGroup
	streaming.Go(func() { failed <- s.stream(t, depth, done, next) })
	t.Cleanup(func() {
		_ = s.qp.ToErr()
		streaming.Wait()
	})
	return failed
}

// areasLeft returns how many areas of channels are mapped.
func areasLeft(t testing.TB) int { return len(areas(t)) }

func TestKilledHostPeerIsAHostThatVanished(t *testing.T) {
	for name, op := range map[string]verbs.Op{"WRITE": verbs.OpWrite, "READ": verbs.OpRead} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s shared %v", name, shared), func(t *testing.T) {
				dir := hostDirectory(t)
				before, mapped := use(), areasLeft(t)
				t.Run("", func(t *testing.T) {
					p := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: 4 << 20, QPs: 1, Type: verbs.RC, Shared: shared, Mode: verbs.SameHostRequire})
					a := hostSide(t, openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire}), 4<<20, shared)
					p.join(t, fast, a)
					var done atomic.Int64
					failed := a.streams(t, 8, &done, func(i int) verbs.SendWR { return p.to(a, op, i%4<<20, 1<<20) })
					eventually(t, "traffic", func() bool { return done.Load() > 20 })
					start := time.Now()
					p.kill()
					wc := <-failed
					if wc.Status != verbs.RetryExcErr {
						t.Errorf("completion %+v", wc)
					}
					if d := time.Since(start); d > 20*time.Second {
						t.Errorf("the failure took %v", d)
					}
					eventually(t, "end of the channel", func() bool { return areasLeft(t) == mapped })
					if err := a.mr.Deregister(); err != nil {
						t.Error(err)
					}
					eventually(t, "end of the peer's name", func() bool {
						list, err := os.ReadDir(dir)
						return err == nil && len(list) == 1
					})
					if err := a.dev.Close(); err != nil {
						t.Error(err)
					}
				})
				noLeak(t, before)
				if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
					t.Errorf("left in the directory: %v, %v", list, err)
				}
			})
		}
	}
}

// A stopped peer only fails its own connection. When it continues, it harms no other
// connection: no message arrives with bytes that were stored after its completion.
func TestStoppedHostPeerFailsOnlyItsConnection(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			hostDirectory(t)
			cfg := peerConfig{Lanes: 1, Size: 2 << 20, QPs: 2, Type: verbs.RC, Shared: shared, Mode: verbs.SameHostRequire}
			cfg.Addr = "127.7.43.2"
			stopped := startHostPeer(t, cfg)
			cfg.Addr = "127.7.43.3"
			other := startHostPeer(t, cfg)
			dev := openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire})
			a, again, b := hostSide(t, dev, 2<<20, shared), hostSide(t, dev, 2<<20, shared), hostSide(t, dev, 2<<20, shared)
			stopped.join(t, verbs.ConnectConfig{Timeout: 14, RetryCnt: 3}, a, again)
			other.join(t, verbs.ConnectConfig{Timeout: 19}, b)

			putMessage(a.buf[:peerSlot], 1)
			var sent, others atomic.Int64
			failed := a.streams(t, 16, &sent, func(int) verbs.SendWR { return stopped.to(a, verbs.OpSend, 0, peerSlot) })
			ended := b.streams(t, 4, &others, func(i int) verbs.SendWR { return other.to(b, verbs.OpWrite, i%8*peerSlot, peerSlot) })
			eventually(t, "traffic", func() bool { return sent.Load() > 20 && others.Load() > 20 })
			stopped.signal(t, syscall.SIGSTOP)
			mark := others.Load()
			if wc := <-failed; wc.Status != verbs.RetryExcErr {
				t.Errorf("completion %+v", wc)
			}
			fillWith(a.buf, 0xee)
			eventually(t, "traffic to the other peer", func() bool { return others.Load() > mark+100 })
			stopped.signal(t, syscall.SIGCONT)

			// The second connection works, through memory.
			fill(again.buf[:1<<20], 2)
			again.post(t, stopped.to(again, verbs.OpWrite, 0, 1<<20))
			again.ok(t, verbs.WCWrite)
			again.sameAt(t, stopped, 1<<20)
			if got := again.qp.Path(); got != verbs.PathSameHost {
				t.Errorf("path %q", got)
			}
			stopped.end(t)
			if err := b.qp.ToErr(); err != nil {
				t.Error(err)
			}
			if wc := <-ended; wc.Status != verbs.WRFlushErr {
				t.Errorf("the other peer's connection: %+v", wc)
			}
			other.end(t)
		})
	}
}

// sameAt READs n bytes from the peer, and compares them with those of this side.
func (s *side) sameAt(t testing.TB, p *hostPeer, n int) {
	t.Helper()
	want := bytes.Clone(s.buf[:n])
	clear(s.buf[:n])
	s.post(t, p.to(s, verbs.OpRead, 0, n))
	s.ok(t, verbs.WCRead)
	if !bytes.Equal(s.buf[:n], want) {
		t.Error("the peer has other bytes")
	}
}

func TestHostPeerThatStartsAgainIsFoundAgain(t *testing.T) {
	hostDirectory(t)
	dev := openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire})
	for _, kill := range []bool{true, false, true} {
		p := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: 2 << 20, QPs: 1, Type: verbs.RC, Shared: kill, Mode: verbs.SameHostRequire})
		a := on(t, dev, make([]byte, 2<<20))
		p.join(t, verbs.ConnectConfig{Timeout: 19}, a)
		fill(a.buf[:1<<20], 3)
		a.post(t, p.to(a, verbs.OpWrite, 0, 1<<20))
		a.ok(t, verbs.WCWrite)
		a.sameAt(t, p, 1<<20)
		if got := a.qp.Path(); got != verbs.PathSameHost {
			t.Errorf("path %q", got)
		}
		if kill {
			p.kill()
		} else {
			p.end(t)
		}
	}
}

// hangUp ends all channels of this process, as a peer could.
func hangUp(t testing.TB) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil {
			continue
		}
		typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil || typ != unix.SOCK_SEQPACKET {
			continue
		}
		if _, err := unix.Getpeername(fd); err == nil && unix.Shutdown(fd, unix.SHUT_RDWR) == nil {
			n++
		}
	}
	return n
}

// A connection in use continues over the network when its channel ends, and over memory when
// there is a new one.
func TestConnectionSurvivesTheEndOfItsChannel(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			hostDirectory(t)
			const size = 2 << 20
			p := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: size, QPs: 1, Type: verbs.RC, Shared: shared, Mode: verbs.SameHostAuto, Report: true})
			a := hostSide(t, openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostAuto}), size, shared)
			p.join(t, verbs.ConnectConfig{Timeout: 14, RetryCnt: 7}, a)
			peer := netip.AddrPortFrom(p.info.Ends[0].GID.Addr(), verbs.Port)
			var stop atomic.Bool
			var rounds atomic.Int64
			var run sync.WaitGroup
			cut, networks := 0, 0
			run.Go(func() {
				defer stop.Store(true)
				for range 12 {
					ok := comes(t, "path through memory", func() bool { // a busy peer may not answer at once
						return registry.Adapter(a.dev).Prepare(peer, 0) == nil && a.qp.Path() == verbs.PathSameHost
					})
					begun := rounds.Load()
					if !ok || !comes(t, "traffic", func() bool { return rounds.Load() > begun+2 }) {
						return
					}
					cut += hangUp(t)
					if !comes(t, "end of the path", func() bool { return a.qp.Path() == verbs.PathNetwork }) {
						return
					}
					networks++
				}
			})
			for i := uint64(0); !stop.Load(); i++ {
				a.round(t, p, i)
				rounds.Add(1)
			}
			run.Wait()
			if cut < 12 || networks != 12 {
				t.Errorf("%d channels were cut, the network was used %d times", cut, networks)
			}
			p.end(t)
		})
	}
}

// A device that requires memory never uses the network: a connection whose channel has ended
// fails with the reason. The test removes the peer's name, because the device would find the
// peer again.
func TestRequiredMemoryIsNeverReplacedByNetwork(t *testing.T) {
	dir := hostDirectory(t)
	p := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: 2 << 20, QPs: 1, Type: verbs.RC, Mode: verbs.SameHostAuto})
	a := hostSide(t, openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire}), 2<<20, false)
	p.join(t, fast, a)
	a.post(t, p.to(a, verbs.OpWrite, 0, 1<<20))
	a.ok(t, verbs.WCWrite)
	names, err := filepath.Glob(filepath.Join(dir, "*127.7.43.2_*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("names of the peer: %v, %v", names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if hangUp(t) == 0 { // two if both ends have dialed
		t.Fatal("no channel to cut")
	}
	eventually(t, "end of the channel", func() bool { return areasLeft(t) == 0 })
	a.post(t, p.to(a, verbs.OpWrite, 0, 8))
	wc := a.one(t)
	if wc.Status != verbs.RetryExcErr || wc.Reason() != "HOST_CLOSED" {
		t.Errorf("completion %+v, %v", wc, wc.Err())
	}
	p.end(t)
}

// round does operations of each kind, and checks their effects.
func (s *side) round(t testing.TB, p *hostPeer, i uint64) {
	t.Helper()
	const counter = 8 << 16 // after the written data
	n := []int{256 << 10, 8, 4096, 100_000}[i%4]
	fill(s.buf[:n], i)
	s.post(t, p.to(s, verbs.OpWrite, 0, n))
	s.ok(t, verbs.WCWrite)
	s.sameAt(t, p, n)
	w := p.to(s, verbs.OpFetchAdd, counter, 8)
	w.Add = 1
	s.post(t, w)
	s.ok(t, verbs.WCFetchAdd)
	if got := s.buf[counter : counter+8]; uint64(got[0])|uint64(got[1])<<8|uint64(got[2])<<16 != i {
		t.Fatalf("fetch and add found % x, expected %d", got, i)
	}
	putMessage(s.buf[:peerSlot], i)
	s.post(t, p.to(s, verbs.OpSend, 0, peerSlot))
	s.ok(t, verbs.WCSend)
	p.line(t, "message")
}

// A READ of a region that is being deregistered returns the right bytes or fails.
func TestHostPeerReadsUntilDeregistration(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			const size = 1 << 20
			a, b := sameHostPair(t, verbs.SameHostRequire, size, shared)
			for round := range 10 {
				if err := errors.Join(a.qp.ToReset(), b.qp.ToReset()); err != nil {
					t.Fatal(err)
				}
				fillWith(a.buf, 0x11) // before a call: the race detector does not see synchronization through shared memory
				ends{connect: verbs.ConnectConfig{Timeout: 14, RetryCnt: 7}}.join(t, a, b)
				done := new(atomic.Int64)
				failed := b.streams(t, 1, done, func(i int) verbs.SendWR {
					if i > 0 && bytes.Count(b.buf, []byte{0x11}) != size {
						t.Error("a READ has succeeded with bytes that were stored after the deregistration")
					}
					w := b.write(0, size)
					w.Op = verbs.OpRead
					return w
				})
				eventually(t, "READs", func() bool { return done.Load() > int64(round) })
				if err := a.mr.Deregister(); err != nil {
					t.Fatal(err)
				}
				fillWith(a.buf, 0xee)
				// A revoked response is lost. The peer requests it again, and its key is
				// refused.
				if wc := <-failed; wc.Status != verbs.RemAccessErr {
					t.Fatalf("completion %+v", wc)
				}
				var err error
				if a.mr, err = a.pd.RegisterMemory(a.buf, allRights); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Memory of a queue pair in the error state belongs to the program: no message arrives with
// data that the program stores there afterwards.
func TestHostPeerTakesNothingAfterTheErrorState(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			hostDirectory(t)
			p := startHostPeer(t, peerConfig{Addr: "127.7.43.2", Lanes: 1, Size: 2 << 20, QPs: 1, Type: verbs.RC, Shared: shared, Mode: verbs.SameHostRequire})
			dev := openHost(t, "127.7.43.1", verbs.Config{SameHost: verbs.SameHostRequire})
			for round := range 10 {
				a := hostSide(t, dev, 1<<20, shared)
				p.join(t, verbs.ConnectConfig{Timeout: 19}, a)
				putMessage(a.buf[:peerSlot], uint64(round))
				var done atomic.Int64
				failed := a.streams(t, 6, &done, func(int) verbs.SendWR { return p.to(a, verbs.OpSend, 0, peerSlot) })
				eventually(t, "SENDs", func() bool { return done.Load() > int64(10*round) })
				if err := a.qp.ToErr(); err != nil {
					t.Fatal(err)
				}
				fillWith(a.buf, 0xee)
				if wc := <-failed; wc.Status != verbs.WRFlushErr {
					t.Fatalf("completion %+v", wc)
				}
				if err := a.qp.Destroy(); err != nil {
					t.Error(err)
				}
				p.reset(t)
			}
			p.end(t)
		})
	}
}
