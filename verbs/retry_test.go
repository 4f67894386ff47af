package verbs_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"softrdma/verbs"
)

// The sender waits for a late receive as often as rnr_retry says, each time as long as
// min_rnr_timer says. 7 means without limit.
func TestLateReceiveIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name       string
		retry      uint8 // 0 of ConnectConfig means 7
		timer      uint8
		late       time.Duration
		want       verbs.Status
		atLeast    time.Duration // until the completion
		atMost     time.Duration
		neverPosts bool
	}{
		{"without end", 7, 14, 60 * time.Millisecond, verbs.Success, 55 * time.Millisecond, 10 * time.Second, false},
		// Six times half a second: a busy machine may run this test much later than after 40 ms.
		{"enough", 6, 31, 40 * time.Millisecond, verbs.Success, 35 * time.Millisecond, 10 * time.Second, false},
		{"given up after 1", 1, 20, 0, verbs.RNRRetryExcErr, 10 * time.Millisecond, 10 * time.Second, true},
		{"given up after 4", 4, 20, 0, verbs.RNRRetryExcErr, 40 * time.Millisecond, 10 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := ends{a: "127.7.5.1", b: "127.7.5.2", qp: verbs.QPConfig{Type: verbs.RC}}
			// Field 14 is 1.28 ms, 20 is 10.24 ms, 31 is 491.52 ms (IBTA table 45).
			e.connect = verbs.ConnectConfig{RNRRetry: c.retry, MinRNRTimer: c.timer}
			a, b := e.pair(t)
			start := time.Now()
			a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 5000)}})
			if !c.neverPosts {
				time.Sleep(c.late)
				b.recv(t, 1, 0, 5000)
			}
			wc := a.one(t)
			if d := time.Since(start); wc.Status != c.want || d < c.atLeast || d > c.atMost {
				t.Fatalf("status %v after %v, expected %v after %v", wc.Status, d, c.want, c.atLeast)
			}
			if c.want == verbs.Success {
				b.ok(t, verbs.WCRecv)
				return
			}
			if s := a.qp.State(); s != verbs.Err {
				t.Fatalf("state %v", s)
			}
			if n := counter(a.dev, "NAK_NOT_READY"); n != uint64(c.retry)+1 {
				t.Fatalf("%d RNR NAKs, expected %d", n, c.retry+1)
			}
		})
	}
}

// A queue pair that failed works again after both ends were reset. Packets of the old
// connection have no effect.
func TestReconnectAfterErrorWorks(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		a, b := ends{a: "127.7.5.3", b: "127.7.5.4", qp: verbs.QPConfig{Type: typ, MaxSend: 31}}.pair(t)
		for round := range byte(30) {
			a.see()
			b.see()
			fillWith(a.buf[:9000], round)
			for range 5 {
				b.recv(t, uint64(round), 9000, 8) // flushed, or dropped by RESET
			}
			w := a.write(0, 9000)
			w.WRID = uint64(round)
			sync := verbs.SendWR{WRID: uint64(round), Op: verbs.OpSend, Flags: verbs.Signaled}
			a.post(t, w, sync)
			if wc := a.ok(t, verbs.WCWrite); wc.WRID != uint64(round) {
				t.Fatalf("%v: completion of round %d in round %d", typ, wc.WRID, round)
			}
			a.ok(t, verbs.WCSend)
			if wc := b.ok(t, verbs.WCRecv); wc.WRID != uint64(round) {
				t.Fatalf("%v: receive of round %d in round %d", typ, wc.WRID, round)
			}
			for i, v := range b.buf[:9000] {
				if v != round {
					t.Fatalf("%v, round %d: byte %d is %d", typ, round, i, v)
				}
			}
			// Some requests are in flight when the connection ends.
			a.post(t, w, w, w)
			if round%2 == 0 {
				if err := a.qp.ToErr(); err != nil {
					t.Fatal(err)
				}
			}
			a.reconnect(t)
			for _, s := range []*side{a, b} { // earlier completions
				for wcs := make([]verbs.WC, 16); ; {
					n, err := s.cq.Poll(wcs)
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						break
					}
				}
			}
		}
		a.dev.Close()
		b.dev.Close()
	}
}

func TestSQDHoldsNewRequestsOfEveryType(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		a, b := ends{a: "127.7.5.3", b: "127.7.5.4", qp: verbs.QPConfig{Type: typ}}.pair(t)
		a.post(t, a.write(0, 60000))
		if err := a.qp.ToSQD(true); err != nil {
			t.Fatal(err)
		}
		event(t, a.dev, verbs.EventSQDrained)
		if q := a.qp.Query(); q.State != verbs.SQD || q.SQDraining {
			t.Fatalf("%v: drained in state %v, draining %v", typ, q.State, q.SQDraining)
		}
		// A request that had not started is held until RTS. One that had is complete by now.
		wc := make([]verbs.WC, 1)
		begun, err := a.cq.Poll(wc)
		if err != nil || begun == 1 && (wc[0].Err() != nil || wc[0].Op != verbs.WCWrite) {
			t.Fatalf("%v: when drained: %v, %v", typ, wc[0], err)
		}
		b.recv(t, 1, 0, 8)
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled})
		for range 100 {
			if n, err := a.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
				t.Fatalf("%v: completed in SQD: %v", typ, err)
			}
		}
		if err := a.qp.Resume(); err != nil {
			t.Fatal(err)
		}
		if begun == 0 {
			a.ok(t, verbs.WCWrite)
		}
		a.ok(t, verbs.WCSend)
		b.ok(t, verbs.WCRecv)
		a.dev.Close()
		b.dev.Close()
	}
}

const victimEnv = "SOFTRDMA_TEST_VICTIM"

// TestVictim is the second process of TestPeerThatIsKilledIsNoticed.
func TestVictim(t *testing.T) {
	addr := os.Getenv(victimEnv)
	if addr == "" {
		t.Skip("the second process of TestPeerThatIsKilledIsNoticed, which starts it")
	}
	s := ends{qp: verbs.QPConfig{Type: verbs.RC}}.side(t, addr)
	mine := s.qp.Endpoint()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var peer verbs.Endpoint
	if err := in.Decode(&peer); err != nil {
		t.Fatal(err)
	}
	if err := s.qp.Connect(mine, peer, verbs.ConnectConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := out.Encode(victim{mine, s.mr.Addr(), s.mr.RKey()}); err != nil {
		t.Fatal(err)
	}
	_ = in.Decode(&peer) // until it is killed, or the first process ends
}

type victim struct {
	Endpoint verbs.Endpoint
	Addr     uint64
	RKey     uint32
}

// When a peer's process is killed, the retries are exhausted, and the error says that its port
// is closed.
func TestPeerThatIsKilledIsNoticed(t *testing.T) {
	needUDP(t)
	a := ends{qp: verbs.QPConfig{Type: verbs.RC}}.side(t, "127.7.5.5")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), victimEnv+"=127.7.5.6")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	mine := a.qp.Endpoint()
	if err := json.NewEncoder(in).Encode(mine); err != nil {
		t.Fatal(err)
	}
	var v victim
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&v); err != nil {
		t.Fatal(err)
	}
	// Timeout 10 is 4.2 ms.
	if err := a.qp.Connect(mine, v.Endpoint, verbs.ConnectConfig{Timeout: 10, RetryCnt: 3}); err != nil {
		t.Fatal(err)
	}
	w := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 1<<15)}, RemoteAddr: v.Addr, RKey: v.RKey}
	a.post(t, w)
	a.ok(t, verbs.WCWrite)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its socket is certainly closed now
	start := time.Now()
	a.post(t, w)
	if wc := a.one(t); wc.Status != verbs.RetryExcErr || wc.Reason() != refused() {
		t.Fatalf("status %v, reason %s", wc.Status, wc.Reason())
	}
	// 4 tries of at least 4.2 ms each.
	if d := time.Since(start); d < 16*time.Millisecond || d > 10*time.Second {
		t.Fatalf("failed after %v", d)
	}
}

// Two devices on one address with different ports, one of them on another address's well-known
// port.
func TestPortOverride(t *testing.T) {
	e := ends{qp: verbs.QPConfig{Type: verbs.RC}}
	a, b, c := e.side(t, "127.7.5.7:4900"), e.side(t, "127.7.5.7:4901"), e.side(t, "127.7.5.8")
	for _, s := range []*side{a, b, c} {
		port := s.qp.Endpoint().UDPPort
		if want := s.dev.Addr().Port(); port != want && !(port == 0 && want == verbs.Port) {
			t.Errorf("endpoint with port %d of a device on %v", port, s.dev.Addr())
		}
	}
	for _, p := range [][2]*side{{a, b}, {b, c}} {
		x, y := p[0], p[1]
		x.peer, y.peer = y, x
		if x.qp.State() != verbs.Reset {
			if err := x.qp.ToReset(); err != nil {
				t.Fatal(err)
			}
		}
		e.join(t, x, y)
		x.buf[7]++
		x.post(t, x.write(0, 8))
		x.ok(t, verbs.WCWrite)
		if x.see(); y.buf[7] != x.buf[7] {
			t.Fatalf("from %v to %v: found %d, expected %d", x.dev.Addr(), y.dev.Addr(), y.buf[7], x.buf[7])
		}
	}
}

// A message whose completion the consumer has seen was acknowledged, whatever it does next:
// the peer's request does not fail if the queue pair ends then.
func TestReceiverThatEndsHasAcknowledged(t *testing.T) {
	for name, end := range map[string]func(s *side) error{
		"close":   func(s *side) error { return s.dev.Close() },
		"destroy": func(s *side) error { return s.qp.Destroy() },
		"error":   func(s *side) error { return s.qp.ToErr() },
		"reset":   func(s *side) error { return s.qp.ToReset() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				e := ends{a: "127.7.5.9", b: "127.7.5.10", qp: verbs.QPConfig{Type: verbs.RC}, connect: verbs.ConnectConfig{Timeout: 17, RetryCnt: 1}}
				a, b := e.pair(t)
				b.recv(t, 1, 0, 10)
				a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 10)}})
				wcs := make([]verbs.WC, 1)
				for {
					n, err := b.cq.Poll(wcs)
					if err != nil {
						t.Fatal(err)
					}
					if n == 1 {
						break
					}
				}
				if err := end(b); err != nil {
					t.Fatal(err)
				}
				a.ok(t, verbs.WCSend)
				a.dev.Close()
				b.dev.Close()
			}
		})
	}
}
