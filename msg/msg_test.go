package msg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"softrdma/msg"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func connect(t testing.TB, a, b *msg.Worker) *msg.Endpoint {
	t.Helper()
	e, err := a.Connect(within(t), b.Address())
	if err != nil {
		t.Fatal(err)
	}
	if taken.rings() {
		awaitRings(t, a, b)
	}
	return e
}

// awaitRings waits until frames go through shared memory, so that tests do not depend on when that begins.
func awaitRings(t testing.TB, workers ...*msg.Worker) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Microsecond) {
		all := true
		for _, w := range workers {
			all = w.Ringed() && all
		}
		switch {
		case all:
			return
		case time.Now().After(end):
			t.Fatal("frames do not go through shared memory")
		}
	}
}

func wait(t testing.TB, r *msg.Request) msg.Info {
	t.Helper()
	i, err := r.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func TestMessagesOfAllSizesArrive(t *testing.T) {
	each(t, msg.Config{Eager: 1000, Unexpected: 4}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		for _, late := range []bool{false, true} {
			for i, n := range []int{0, 1, 1000, 1001, 70000, 3 << 20} {
				data, buf := random(n), make([]byte, n)
				var r, s *msg.Request
				if late {
					s = e.Send(uint64(i), msg.Buffers{data}, nil)
					for ok := false; !ok; _, ok = b.Probe(uint64(i), msg.All) {
						time.Sleep(time.Millisecond)
					}
					r = b.Receive(msg.Buffers{buf}, uint64(i), msg.All)
				} else {
					r = b.Receive(msg.Buffers{buf}, uint64(i), msg.All)
					s = e.Send(uint64(i), msg.Buffers{data}, nil)
				}
				if got := wait(t, r); got != (msg.Info{Tag: uint64(i), Length: n}) || !bytes.Equal(buf, data) {
					t.Errorf("%d bytes: %+v, same bytes: %v", n, got, bytes.Equal(buf, data))
				}
				wait(t, s)
			}
		}
		if err := e.Close(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// Many more messages than credits are sent before the first receive, and keep their order.
func TestUnexpectedMessagesKeepTheirOrder(t *testing.T) {
	each(t, msg.Config{Eager: 100, Unexpected: 8}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const n = 500
		var sends []*msg.Request
		for i := range n {
			sends = append(sends, e.Send(5, msg.Buffers{fmt.Appendf(nil, "message %d", i)}, nil))
		}
		for i := range n {
			buf := make([]byte, 64)
			got := wait(t, b.Receive(msg.Buffers{buf}, 0, 0))
			if want := fmt.Sprintf("message %d", i); string(buf[:got.Length]) != want {
				t.Fatalf("%q, expected %q", buf[:got.Length], want)
			}
		}
		for _, s := range sends {
			wait(t, s)
		}
	})
}

func TestSyncSendWaitsForTheReceive(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		s := e.Send(1, msg.Buffers{[]byte("x")}, &msg.SendOptions{Sync: true})
		for ok := false; !ok; _, ok = b.Probe(1, msg.All) {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-s.Done():
			t.Error("it ends before the receive")
		default:
		}
		wait(t, b.Receive(msg.Buffers{make([]byte, 1)}, 1, msg.All))
		wait(t, s)
	})
}

func TestProbeClaimCancelAndTruncation(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		canceled := b.Receive(msg.Buffers{make([]byte, 10)}, 3, msg.All)
		if !canceled.Cancel() || canceled.Cancel() {
			t.Error("cancel does not work once")
		}
		if _, err := canceled.Wait(within(t)); !errors.Is(err, msg.ErrCanceled) {
			t.Error(err)
		}
		for _, n := range []int{50, 5000} {
			data := random(n)
			sends := []*msg.Request{e.Send(3, msg.Buffers{data}, nil), e.Send(3, msg.Buffers{data}, nil)}
			var m *msg.Message
			for m == nil {
				m = b.Claim(3, msg.All)
			}
			if m.Length != n || m.Tag != 3 {
				t.Errorf("claimed %+v", m.Info)
			}
			if _, err := b.Receive(msg.Buffers{make([]byte, 10)}, 3, msg.All).Wait(within(t)); !errors.Is(err, msg.ErrTruncated) {
				t.Error(err)
			}
			buf := make([]byte, n)
			wait(t, b.ReceiveMessage(msg.Buffers{buf}, m))
			if !bytes.Equal(buf, data) {
				t.Error("claimed message has other bytes")
			}
			for _, s := range sends {
				wait(t, s)
			}
		}
	})
}

// A worker that closes ends what waits for it, once and with ErrPeer; its own receives end too.
func TestPeerFailureEndsWhatWaits(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		var waiting []*msg.Request
		for range 10 {
			waiting = append(waiting, e.Send(1, msg.Buffers{random(5000)}, nil), e.Send(1, msg.Buffers{random(5)}, &msg.SendOptions{Sync: true}))
		}
		own := b.Receive(msg.Buffers{make([]byte, 10)}, 2, msg.All)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for _, r := range waiting {
			if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
				t.Errorf("%v, expected %v", err, msg.ErrPeer)
			}
		}
		if _, err := own.Wait(within(t)); !errors.Is(err, msg.ErrClosed) {
			t.Error(err)
		}
		if _, err := e.Send(1, nil, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) || e.Err() == nil {
			t.Errorf("%v, endpoint %v", err, e.Err())
		}
	})
}

// Both workers send to each other from many goroutines.
func TestManySendersAndReceivers(t *testing.T) {
	each(t, msg.Config{Eager: 512, Unexpected: 16}, func(t *testing.T, a, b *msg.Worker) {
		const senders, messages = 8, 100
		var done sync.WaitGroup
		for _, pair := range [][2]*msg.Worker{{a, b}, {b, a}} {
			e := connect(t, pair[0], pair[1])
			for k := range senders {
				done.Add(2)
				go func() {
					defer done.Done()
					for i := range messages {
						data := bytes.Repeat([]byte{byte(i)}, 1+i*20)
						if _, err := e.Send(uint64(k), msg.Buffers{data}, nil).Wait(within(t)); err != nil {
							t.Error(err)
							return
						}
					}
				}()
				go func() {
					defer done.Done()
					buf := make([]byte, 4096)
					for i := range messages {
						got, err := pair[1].Receive(msg.Buffers{buf}, uint64(k), msg.All).Wait(within(t))
						if err != nil || got.Length != 1+i*20 || buf[got.Length-1] != byte(i) {
							t.Errorf("message %d of sender %d: %+v, %v", i, k, got, err)
							return
						}
					}
				}()
			}
		}
		done.Wait()
	})
}

// Close finds out that all frames have arrived, however many of them have no completion of their own.
func TestCloseAfterAnyNumberOfFrames(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		for _, n := range []int{0, 1, 15, 16, 17, 32, 33, 63, 64, 65, 100} {
			e := connect(t, a, b)
			var receives []*msg.Request
			for range n {
				receives = append(receives, b.Receive(msg.Buffers{make([]byte, 1)}, uint64(n), msg.All))
			}
			for range n {
				e.Send(uint64(n), msg.Buffers{[]byte{1}}, nil)
			}
			if err := e.Close(within(t)); err != nil {
				t.Errorf("%d frames: %v", n, err)
			}
			for _, r := range receives {
				wait(t, r)
			}
		}
	})
}
