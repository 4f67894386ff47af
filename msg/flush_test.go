package msg_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"softrdma/msg"
)

// When a flush ends, all messages are with the other worker, also those that waited for room in the
// send queue.
func TestFlushEndsWhenMessagesHaveArrived(t *testing.T) {
	each(t, msg.Config{Eager: 100, Unexpected: 200}, func(t *testing.T, a, b *msg.Worker) {
		e, _ := connectBoth(t, a, b) // the other worker has begun to serve it
		other, _ := connectBoth(t, a, b)
		for _, f := range []func() *msg.Request{func() *msg.Request { return e.Flush() }, a.Flush} {
			const n = 190
			for i := range n {
				e.Send(1, msg.Buffers{random(100)}, nil)
				if i%20 == 0 {
					e.Send(1, msg.Buffers{random(1000)}, nil) // announced
				}
			}
			other.Send(2, nil, nil)
			wait(t, f())
			got := 0
			for b.Claim(1, msg.All) != nil {
				got++
			}
			if got != n+10 {
				t.Errorf("%d messages are there after the flush, expected %d", got, n+10)
			}
			wait(t, other.Flush())
			if b.Claim(2, msg.All) == nil {
				t.Error("the message of the other endpoint is not there")
			}
			// Claimed messages hold their credits.
			e, _ = connectBoth(t, a, b)
		}
	})
}

// A flush waits for frames that wait for room in the send queue.
func TestFlushWaitsForTheSendQueue(t *testing.T) {
	withoutRings(t)
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e, _ := connectBoth(t, a, b)
		wait(t, e.Flush())
		release := e.Hold()
		e.Send(1, nil, nil)
		f := e.Flush()
		for range 200 {
			b.Progress()
			if _, ended, _ := f.Poll(); ended {
				t.Fatal("a flush ends before the frame is posted")
			}
		}
		release()
		wait(t, f)
		if b.Claim(1, msg.All) == nil {
			t.Error("the message is not there after the flush")
		}
	})
}

// A frame of the rings' protocol does not share the SEND of frames that wait for room in the send queue.
func TestControlFramesWaitBehindHeaders(t *testing.T) {
	withoutRings(t)
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e, _ := connectBoth(t, a, b)
		wait(t, e.Flush())
		release := e.Hold()
		data := random(1000) // longer than a frame: only its announcement waits
		first := e.Send(1, msg.Buffers{data}, nil)
		e.Control()
		second := e.Send(2, msg.Buffers{data}, nil)
		release()
		for tag, s := range map[uint64]*msg.Request{1: first, 2: second} {
			got := make([]byte, len(data))
			if wait(t, b.Receive(msg.Buffers{got}, tag, msg.All)); !bytes.Equal(got, data) {
				t.Errorf("message %d: other bytes", tag)
			}
			wait(t, s)
		}
	})
}

// A flush waits for sends that the peer's limits hold back, and for no others.
func TestFlushWaitsForHeldSends(t *testing.T) {
	each(t, msg.Config{Eager: 100, Unexpected: 2, Announced: 2, Active: 2, Stream: 100}, func(t *testing.T, a, b *msg.Worker) {
		atA, atB := connectBoth(t, a, b)
		kept := make(chan *msg.Active, 10)
		b.Handle(idFirst, func(m *msg.Active) {
			m.Keep()
			kept <- m
		})
		for what, hold := range map[string]struct{ send, release func() }{
			"tagged": {
				func() { atA.Send(1, nil, nil) },
				func() { wait(t, b.Receive(nil, 1, msg.All)) },
			},
			"active": {
				func() { atA.SendActive(idFirst, nil, nil, nil) },
				func() { next(t, kept).Release() },
			},
			"stream": {
				func() { atA.SendStream(msg.Buffers{make([]byte, 50)}) },
				func() { wait(t, atB.ReceiveStream(msg.Buffers{make([]byte, 50)}, &msg.StreamOptions{Full: true})) },
			},
		} {
			wait(t, atA.Flush())
			before := 0
			for _, early := range []bool{true, false} {
				for range 5 {
					hold.send()
					before++
				}
				f := atA.Flush()
				hold.send()
				for range 200 {
					b.Progress()
					if _, ended, _ := f.Poll(); ended {
						t.Fatalf("%s: a flush ends while sends before it are held back", what)
					}
				}
				if early {
					wait(t, atB.Flush()) // the other direction is free
				}
				for range before - 1 { // one less: the last has begun and is not received
					hold.release()
				}
				wait(t, f)
				hold.release()
				hold.release()
				before = 0
			}
		}
	})
}

// Close delivers all sends that began before it, and none after. Requests of StartClose end when the
// connection has.
func TestCloseDeliversWhatWasSent(t *testing.T) {
	each(t, msg.Config{Eager: 100, Unexpected: 4}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const n = 50
		var sends, closes []*msg.Request
		for i := range n {
			sends = append(sends, e.Send(1, msg.Buffers{make([]byte, i*5)}, nil))
		}
		closes = append(closes, e.StartClose(), e.StartClose())
		for _, r := range []*msg.Request{e.Send(1, nil, nil), e.SendActive(1, nil, nil, nil), e.SendStream(msg.Buffers{[]byte{1}})} {
			if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrClosed) {
				t.Errorf("send after StartClose: %v, expected %v", err, msg.ErrClosed)
			}
		}
		if _, ended, _ := closes[0].Poll(); ended {
			t.Error("closed before the messages were received")
		}
		for i := range n {
			if got := wait(t, b.Receive(msg.Buffers{make([]byte, 1000)}, 1, msg.All)); got.Length != i*5 {
				t.Fatalf("message of %d bytes, expected %d", got.Length, i*5)
			}
		}
		for _, r := range append(sends, closes...) {
			wait(t, r)
		}
		if !errors.Is(e.Err(), msg.ErrClosed) {
			t.Errorf("endpoint: %v, expected %v", e.Err(), msg.ErrClosed)
		}
		if err := e.Close(within(t)); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// Abort, and Close with a context that ends, end what waits, and the peer learns of it.
func TestAbortEndsWhatWaits(t *testing.T) {
	failed := make(chan error, 10)
	c := msg.Config{Eager: 100, Failed: func(_ *msg.Endpoint, err error) { failed <- err }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		for _, end := range []func(*msg.Endpoint){
			(*msg.Endpoint).Abort,
			func(e *msg.Endpoint) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				if err := e.Close(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("Close: %v, expected %v", err, context.Canceled)
				}
			},
		} {
			e, _ := connectBoth(t, a, b)
			waiting := []*msg.Request{e.Send(1, msg.Buffers{random(1000)}, nil), e.Send(1, nil, &msg.SendOptions{Sync: true}), e.ReceiveStream(msg.Buffers{make([]byte, 1)}, nil)}
			slow := e.StartClose()
			end(e)
			for _, r := range append(waiting, slow) {
				if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrClosed) {
					t.Errorf("%v, expected %v", err, msg.ErrClosed)
				}
			}
			if err := next(t, failed); !errors.Is(err, msg.ErrPeer) || errors.Is(err, msg.ErrClosed) {
				t.Errorf("the peer: %v, expected %v", err, msg.ErrPeer)
			}
		}
		if len(failed) > 0 {
			t.Errorf("another failure: %v", <-failed)
		}
	})
}
