package honest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// timeLimit is the time limit of each step, generous enough for a busy machine.
const timeLimit = 60 * time.Second

// block is the size of each part of an end's memory.
const block = 1 << 13

// Parts of an end's memory, each one block long.
const (
	partSend  = iota // source of SENDs and WRITEs
	partRecv         // receive buffer
	partWrite        // destination of the peer's WRITEs and source of its READs
	partRead         // destination of READs
	partGuard        // never written
	parts
)

// An End is one side of a Pair.
type End struct {
	Dev   *verbs.Device
	PD    *verbs.PD
	CQ    *verbs.CQ
	QP    *verbs.QP
	MR    *verbs.MR
	Local verbs.Endpoint // as known by the peer

	peer  *End
	model []byte // expected contents of the memory
	sent  uint64 // number of messages
}

// A Pair is two devices with a connected RC queue pair each.
type Pair struct {
	A, B *End
}

// A Config configures a Pair or Datagrams. The zero value is suitable for most tests.
type Config struct {
	A, B   string // addresses; empty for free ones of 127.0.0.0/8
	Device verbs.Config
	QP     verbs.QPConfig // without Type and SendCQ
}

// NewPair opens and connects a pair, which is closed at the end of the test. Its packets
// go through sockets, as between processes.
func NewPair(t testing.TB, c Config) *Pair {
	t.Helper()
	c.QP.Type = verbs.RC
	p := &Pair{A: newEnd(t, c.A, c), B: newEnd(t, c.B, c)}
	p.A.peer, p.B.peer = p.B, p.A
	for _, e := range []*End{p.A, p.B} {
		e.Local = e.QP.Endpoint()
	}
	for _, e := range []*End{p.A, p.B} {
		// The timeout of half a second does not expire seven times in a row even on
		// a busy machine.
		if err := e.QP.Connect(e.Local, e.peer.Local, verbs.ConnectConfig{Timeout: 17}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func newEnd(t testing.TB, addr string, c Config) *End {
	t.Helper()
	c.Device.NoLoopback = true
	e := &End{Dev: Open(t, addr, c.Device), model: make([]byte, parts*block)}
	var errs [4]error
	e.PD, errs[0] = e.Dev.AllocPD()
	e.CQ, errs[1] = e.Dev.CreateCQ(verbs.CQConfig{Depth: 1024})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	e.MR, errs[2] = e.PD.RegisterMemory(make([]byte, parts*block), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	c.QP.SendCQ = e.CQ
	e.QP, errs[3] = e.PD.CreateQP(c.QP)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i := range e.model {
		e.model[i] = 0xa5
	}
	copy(e.MR.Bytes(), e.model)
	return e
}

// Open opens a device, which is closed at the end of the test. An empty address means a
// free one of 127.0.0.0/8, and "iwarp:" a free one for iWARP.
func Open(t testing.TB, addr string, c verbs.Config) *verbs.Device {
	t.Helper()
	for end := time.Now().Add(timeLimit); ; {
		name := addr
		if addr == "" || addr == "iwarp:" {
			name += Address()
		}
		d, err := verbs.Open(name, c)
		if err == nil {
			t.Cleanup(func() { d.Close() })
			return d
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Address returns a random address of 127.0.0.0/8.
func Address() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
}

// Round sends a message of n bytes in both directions by SEND, WRITE and READ, and
// checks the memory of both ends. n is at most a block.
func (p *Pair) Round(t testing.TB, n int) {
	t.Helper()
	if n > block {
		t.Fatalf("a message of %d bytes: expected at most %d", n, block)
	}
	for _, e := range []*End{p.A, p.B} {
		e.begin(t, n)
	}
	for _, e := range []*End{p.A, p.B} {
		e.sends(t, n)
	}
	for _, e := range []*End{p.A, p.B} {
		e.finish(t, n)
	}
	p.Unharmed(t)
}

// part returns a scatter/gather entry with the first n bytes of a part.
func (e *End) part(i, n int) verbs.SGE { return e.MR.SGE(i*block, n) }

// fills writes the contents of the end's message i to b.
func (e *End) fills(b []byte, i uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], i)
	binary.LittleEndian.PutUint32(key[8:], e.QP.Number())
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
}

// begin writes the next message and posts the receive for the peer's.
func (e *End) begin(t testing.TB, n int) {
	t.Helper()
	e.sent++
	e.fills(e.model[partSend*block:][:n], e.sent)
	copy(e.MR.Bytes()[partSend*block:], e.model[partSend*block:][:n])
	if err := e.QP.PostRecv(verbs.RecvWR{WRID: e.sent, SGL: []verbs.SGE{e.part(partRecv, n)}}); err != nil {
		t.Fatal(err)
	}
}

// sends posts a SEND and a WRITE of the message, and a READ of the data written.
func (e *End) sends(t testing.TB, n int) {
	t.Helper()
	at := e.peer.MR.Addr() + partWrite*block
	err := e.QP.PostSend(
		verbs.SendWR{WRID: e.sent, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{e.part(partSend, n)}},
		verbs.SendWR{WRID: e.sent, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{e.part(partSend, n)}, RemoteAddr: at, RKey: e.peer.MR.RKey()},
		verbs.SendWR{WRID: e.sent, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{e.part(partRead, n)}, RemoteAddr: at, RKey: e.peer.MR.RKey()},
	)
	if err != nil {
		t.Fatal(err)
	}
}

// finish waits for the four completions of a round: three sends in order, and one
// receive.
func (e *End) finish(t testing.TB, n int) {
	t.Helper()
	sends := []verbs.WCOp{verbs.WCSend, verbs.WCWrite, verbs.WCRead}
	for range 4 {
		wc := e.Next(t)
		switch {
		case wc.Status != verbs.Success:
			t.Fatalf("message %d: %v", e.sent, wc.Err())
		case wc.WRID != e.sent:
			t.Fatalf("message %d: the completion is of request %d", e.sent, wc.WRID)
		case wc.Op == verbs.WCRecv && int(wc.ByteLen) != n:
			t.Fatalf("message %d: received %d bytes, expected %d", e.sent, wc.ByteLen, n)
		case wc.Op == verbs.WCRecv:
		case len(sends) == 0 || wc.Op != sends[0]:
			t.Fatalf("message %d: completion of operation %v, expected one of %v in this order", e.sent, wc.Op, sends)
		default:
			sends = sends[1:]
		}
	}
	e.peer.fills(e.model[partRecv*block:][:n], e.sent)
	e.peer.fills(e.model[partWrite*block:][:n], e.sent)
	e.fills(e.model[partRead*block:][:n], e.sent)
}

// Next waits for the next completion.
func (e *End) Next(t testing.TB) verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	for {
		var wcs [1]verbs.WC
		if n, err := e.CQ.Poll(wcs[:]); n == 1 {
			return wcs[0]
		} else if err != nil {
			t.Fatal(err)
		}
		if err := e.CQ.Wait(ctx); err != nil {
			t.Fatalf("no completion: %v, refused: %v", err, Refusals(e.Dev))
		}
	}
}

// Unharmed checks between two rounds that both ends are connected, that there are no
// unexpected completions, and that the memory of both ends has the expected contents.
func (p *Pair) Unharmed(t testing.TB) {
	t.Helper()
	for name, e := range map[string]*End{"A": p.A, "B": p.B} {
		var wcs [1]verbs.WC
		if n, err := e.CQ.Poll(wcs[:]); n != 0 || err != nil {
			t.Fatalf("end %s: expected no completion, found %d (%v), %v", name, n, err, wcs[0].Err())
		}
		if s := e.QP.State(); s != verbs.RTS {
			t.Fatalf("end %s: expected RTS, found %v, refused: %v", name, s, Refusals(e.Dev))
		}
		if got := e.MR.Bytes(); !bytes.Equal(got, e.model) {
			i := 0
			for got[i] == e.model[i] {
				i++
			}
			t.Fatalf("end %s: byte %d of part %d is %#x, expected %#x", name, i%block, i/block, got[i], e.model[i])
		}
	}
}
