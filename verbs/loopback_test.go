package verbs_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/verbs"
)

// The addresses of these tests, which tests of other packages do not use.
const (
	addrA = "127.7.0.1"
	addrB = "127.7.0.2"
)

// A side is one end of a loopback pair.
type side struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte

	peer      *side         // of a pair
	timeLimit time.Duration // of waits; 0 means 20 s
}

func newSide(t testing.TB, addr string, size int, typ verbs.QPType) *side {
	t.Helper()
	s := &side{buf: make([]byte, size)}
	var err error
	s.dev = openDevice(t, addr, verbs.Config{})
	t.Cleanup(func() { s.dev.Close() })
	if s.pd, err = s.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = s.dev.CreateCQ(verbs.CQConfig{Depth: 1024}); err != nil {
		t.Fatal(err)
	}
	s.mr, err = s.pd.RegisterMemory(s.buf, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic|verbs.MWBind)
	if err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, MaxInline: 64}); err != nil {
		t.Fatal(err)
	}
	return s
}

// pair connects two devices of this process.
func pair(t testing.TB, size int, typ verbs.QPType) (a, b *side) {
	t.Helper()
	a, b = newSide(t, addrA, size, typ), newSide(t, addrB, size, typ)
	a.peer, b.peer = b, a
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	if err := a.qp.Connect(ea, eb, verbs.ConnectConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.Connect(eb, ea, verbs.ConnectConfig{}); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// one waits for the next completion.
func (s *side) one(t testing.TB) verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), max(s.timeLimit, 20*time.Second))
	defer cancel()
	var wc [1]verbs.WC
	for {
		n, err := s.cq.Poll(wc[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return wc[0]
		}
		if err := s.cq.Wait(ctx); err != nil {
			t.Fatalf("waiting for a completion: %v", err)
		}
	}
}

// see orders the peer's device and the test's accesses to its memory for the race detector,
// which does not know that completions of this side do.
func (s *side) see() {
	if s.peer != nil {
		s.peer.qp.State()
	}
}

func (s *side) ok(t testing.TB, op verbs.WCOp) verbs.WC {
	t.Helper()
	wc := s.one(t)
	s.see()
	if err := wc.Err(); err != nil {
		t.Fatal(err)
	}
	if wc.Op != op {
		t.Fatalf("completion of operation %d, expected %d", wc.Op, op)
	}
	return wc
}

func (s *side) post(t testing.TB, wrs ...verbs.SendWR) {
	t.Helper()
	s.see()
	if err := s.qp.PostSend(wrs...); err != nil {
		t.Fatal(err)
	}
}

func TestLoopbackRC(t *testing.T) {
	const size = 3<<20 + 17
	a, b := pair(t, size+64, verbs.RC)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range a.buf {
		a.buf[i] = byte(r.Uint32())
	}
	want := bytes.Clone(a.buf)

	t.Run("write", func(t *testing.T) {
		a.post(t, verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.ok(t, verbs.WCWrite)
		if !bytes.Equal(b.buf[:size], want[:size]) {
			t.Fatal("bytes differ")
		}
	})
	t.Run("read", func(t *testing.T) {
		clear(a.buf[:size])
		a.post(t, verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.ok(t, verbs.WCRead)
		if !bytes.Equal(a.buf[:size], want[:size]) {
			t.Fatal("bytes differ")
		}
	})
	t.Run("send with immediate", func(t *testing.T) {
		clear(b.buf)
		if err := b.qp.PostRecv(verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{b.mr.SGE(0, size)}}); err != nil {
			t.Fatal(err)
		}
		a.post(t, verbs.SendWR{Op: verbs.OpSendImm, Imm: 0x01020304, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 1000), a.mr.SGE(1000, size-1000)}})
		a.ok(t, verbs.WCSend)
		wc := b.ok(t, verbs.WCRecv)
		if wc.WRID != 7 || wc.Imm != 0x01020304 || wc.ByteLen != size || !bytes.Equal(b.buf[:size], want[:size]) {
			t.Fatalf("received %+v", wc)
		}
	})
	t.Run("fetch and add", func(t *testing.T) {
		clear(b.buf[:8])
		for i := range 10 {
			a.post(t, verbs.SendWR{Op: verbs.OpFetchAdd, Add: 3, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(size+7, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.ok(t, verbs.WCFetchAdd)
			if got := a.buf[size+7]; got != byte(3*i) {
				t.Fatalf("fetched %d, expected %d", got, 3*i)
			}
		}
	})
	t.Run("wrong key", func(t *testing.T) {
		a.post(t, verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1})
		if wc := a.one(t); wc.Status != verbs.RemAccessErr {
			t.Fatalf("status %v", wc.Status)
		} else {
			t.Log(wc.Err())
		}
		if s := a.qp.State(); s != verbs.Err {
			t.Fatalf("state %v", s)
		}
	})
}
