package msg_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"softrdma/msg"
)

// Senders write the bytes of long messages, in pieces of all kinds at both ends, of all lengths, to
// receives that wait and to receives that come late.
func TestWrittenMessagesArrive(t *testing.T) {
	each(t, msg.Config{Eager: 100, Rendezvous: msg.RendezvousPut}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		for i, n := range []int{0, 1, 100, 101, 5000, 300000} {
			for _, pieces := range []int{1, 5, 40} {
				for _, late := range []bool{false, true} {
					tag := uint64(i)
					data, buf := random(n), make([]byte, n+3)
					to := cut(buf, pieces)
					var r, s *msg.Request
					if late {
						s = e.Send(tag, cut(data, 41-pieces), &msg.SendOptions{Sync: true})
						for ok := false; !ok; _, ok = b.Probe(tag, msg.All) {
						}
						r = b.Receive(to, tag, msg.All)
					} else {
						r = b.Receive(to, tag, msg.All)
						s = e.Send(tag, cut(data, 41-pieces), nil)
					}
					got := wait(t, r)
					wait(t, s)
					if got.Length != n || !bytes.Equal(buf[:n], data) || !bytes.Equal(buf[n:], []byte{0, 0, 0}) {
						t.Errorf("%d bytes in %d pieces, late %v: %+v", n, pieces, late, got)
					}
				}
			}
		}
		if err := e.Close(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// A message that is too long for its receive is not written, and the next one is right. Active
// messages are written where their handler says.
func TestWrittenMessagesAreTruncatedDroppedAndHandled(t *testing.T) {
	each(t, msg.Config{Eager: 100, Rendezvous: msg.RendezvousPut, Announced: 2}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		data := random(70000)
		for range 5 { // more than may be announced at a time
			short, guard := b.Receive(msg.Buffers{make([]byte, 60000)}, 1, msg.All), make([]byte, 70000)
			s := e.Send(1, msg.Buffers{data}, nil)
			if i, err := short.Wait(within(t)); !errors.Is(err, msg.ErrTruncated) || i.Length != 70000 {
				t.Errorf("%+v, %v", i, err)
			}
			wait(t, s)
			r := b.Receive(msg.Buffers{guard}, 1, msg.All)
			wait(t, e.Send(1, msg.Buffers{data}, nil))
			if wait(t, r); !bytes.Equal(guard, data) || r.Cancel() {
				t.Error("the next message is not right")
			}
		}
		received := make(chan error, 1)
		b.Handle(idFirst, func(m *msg.Active) {
			if m.Header[0] == 1 {
				received <- nil // and drops the data
				return
			}
			buf := make([]byte, m.Length)
			m.Receive(msg.Buffers{buf}).Then(func(_ msg.Info, err error) {
				if err == nil && !bytes.Equal(buf, data) {
					err = fmt.Errorf("other bytes")
				}
				received <- err
			})
		})
		for i := range byte(6) {
			s := e.SendActive(idFirst, []byte{i % 2}, msg.Buffers{data}, nil)
			if err := next(t, received); err != nil {
				t.Error(err)
			}
			wait(t, s)
		}
	})
}

// A worker that closes while it waits for bytes ends both requests with errors. The sender, whose program
// makes progress only then, has not written them: it calls nothing after the receiver has asked for bytes.
// It may then write them to a peer that has closed. On iWARP such a WRITE succeeds if TCP takes the bytes
// before the end of the stream is seen (RFC 5040, clause 5.5), as Send says.
func TestWrittenMessagesEndWithTheirPeer(t *testing.T) {
	c := msg.Config{Eager: 100, Rendezvous: msg.RendezvousPut, Progress: msg.ProgressCaller}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		var sends, receives []*msg.Request
		var claimed []*msg.Message
		for range 4 {
			sends = append(sends, e.Send(1, msg.Buffers{make([]byte, 8<<20)}, nil))
			ctx := within(t)
			m := b.Claim(1, msg.All)
			for ; m == nil && ctx.Err() == nil; m = b.Claim(1, msg.All) {
			}
			if m == nil {
				t.Fatal("no message arrives")
			}
			claimed = append(claimed, m)
		}
		for _, m := range claimed {
			receives = append(receives, b.ReceiveMessage(msg.Buffers{make([]byte, 8<<20)}, m))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range sends {
			if _, err := receives[i].Wait(within(t)); !errors.Is(err, msg.ErrClosed) {
				t.Errorf("receive: %v, expected %v", err, msg.ErrClosed)
			}
			_, err := sends[i].Wait(within(t))
			if taken := err == nil && strings.HasSuffix(t.Name(), "/iWARP"); !taken && !errors.Is(err, msg.ErrPeer) {
				t.Errorf("send %d: %v, expected %v", i, err, msg.ErrPeer)
			}
		}
	})
}
