package honest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"softrdma/verbs"
)

// grh is the length of the area before a received datagram.
const grh = 40

// Datagrams is two devices with a UD queue pair each.
type Datagrams struct {
	A, B *End

	qkey uint32
	to   map[*End]*verbs.AH // of the peer
}

// NewDatagrams opens the devices and creates the queue pairs with a Q_Key.
func NewDatagrams(t testing.TB, c Config, qkey uint32) *Datagrams {
	t.Helper()
	c.QP.Type = verbs.UD
	d := &Datagrams{A: newEnd(t, c.A, c), B: newEnd(t, c.B, c), qkey: qkey, to: make(map[*End]*verbs.AH)}
	d.A.peer, d.B.peer = d.B, d.A
	for _, e := range []*End{d.A, d.B} {
		err := errors.Join(e.QP.ToInit(verbs.InitAttr{QKey: qkey}), e.QP.ToRTR(verbs.RTRAttr{}), e.QP.ToRTS(verbs.RTSAttr{}))
		if err != nil {
			t.Fatal(err)
		}
		e.Local = e.QP.Endpoint()
		peer := e.peer.Dev
		if d.to[e], err = e.PD.CreateAH(verbs.AddressVector{DGID: peer.GID(), UDPPort: peer.Addr().Port()}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Round sends a datagram of n bytes in both directions, and checks that it arrives and
// nothing else does.
func (d *Datagrams) Round(t testing.TB, n int) {
	t.Helper()
	d.pass(t, d.A, n)
	d.pass(t, d.B, n)
}

// pass sends a datagram and repeats it until it arrives, because a flood may overrun the
// receiver's socket.
func (d *Datagrams) pass(t testing.TB, e *End, n int) {
	t.Helper()
	e.sent++
	want, again := make([]byte, n), make([]byte, n)
	e.fills(want, e.sent)
	e.peer.recv(t, n)
	for end := time.Now().Add(timeLimit); time.Now().Before(end); {
		copy(e.MR.Bytes()[partSend*block:], want)
		e.post(t, d.to[e], d.qkey, n)
		for wc, ok := e.peer.soon(t); ok; wc, ok = e.peer.soon(t) {
			got := e.peer.MR.Bytes()[partRecv*block+grh:][:wc.ByteLen-grh]
			if wc.Status != verbs.Success || wc.Op != verbs.WCRecv || wc.SrcQPN != e.QP.Number() {
				t.Fatalf("datagram %d: %+v, %v", e.sent, wc, wc.Err())
			}
			if bytes.Equal(got, want) {
				return
			}
			// Is it a late copy of the previous datagram?
			e.fills(again, e.sent-1)
			if !bytes.Equal(got, again) {
				t.Fatalf("datagram %d: received other bytes", e.sent)
			}
			e.peer.recv(t, n)
		}
	}
	t.Fatalf("datagram %d: did not arrive, refused: %v", e.sent, Refusals(e.peer.Dev))
}

// recv posts a receive for a datagram.
func (e *End) recv(t testing.TB, n int) {
	t.Helper()
	if err := e.QP.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{e.part(partRecv, grh+n)}}); err != nil {
		t.Fatal(err)
	}
}

// post sends a datagram and waits for its completion.
func (e *End) post(t testing.TB, to *verbs.AH, qkey uint32, n int) {
	t.Helper()
	err := e.QP.PostSend(verbs.SendWR{
		Op: verbs.OpSend, Flags: verbs.Signaled, AH: to, SGL: []verbs.SGE{e.part(partSend, n)},
		RemoteQPN: e.peer.QP.Number(), RemoteQKey: qkey,
	})
	if err != nil {
		t.Fatal(err)
	}
	if wc := e.Next(t); wc.Op != verbs.WCSend || wc.Status != verbs.Success {
		t.Fatalf("datagram %d: %+v, %v", e.sent, wc, wc.Err())
	}
}

// soon waits briefly for a completion, and reports whether there was one.
func (e *End) soon(t testing.TB) (wc verbs.WC, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := e.CQ.Wait(ctx); err != nil {
		return wc, false
	}
	return e.Next(t), true
}
