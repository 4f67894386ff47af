package msg_test

import (
	"testing"
	"time"

	"softrdma/msg"
)

func TestCallerMakesProgress(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller, Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		for _, n := range []int{5, 5000} {
			s := e.Send(1, msg.Buffers{random(n)}, &msg.SendOptions{Sync: true})
			r := b.Receive(msg.Buffers{make([]byte, n)}, 1, msg.All)
			for both := 0; both < 2; {
				both = 0
				for _, q := range []*msg.Request{s, r} {
					if _, ended, err := q.Poll(); err != nil {
						t.Fatal(err)
					} else if ended {
						both++
					}
				}
			}
		}
	})
}

// Wait makes progress itself, and sleeps without an event.
func TestCallerWaits(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller, Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		const waiters = 4
		errs := make(chan error, waiters)
		for i := range waiters {
			r := b.Receive(msg.Buffers{make([]byte, 5000)}, uint64(i), msg.All)
			go func() {
				_, err := r.Wait(within(t))
				errs <- err
			}()
		}
		time.Sleep(5 * time.Millisecond) // longer than they poll; the result does not depend on it
		for i := range waiters {
			wait(t, e.Send(uint64(i), msg.Buffers{random(5 + i*1000)}, nil))
		}
		for range waiters {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSignalWakesTheProgramsGoroutine(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, _ *msg.Worker) {
		for !a.Arm() {
		}
		a.Signal()
		next(t, a.Wakeup())
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		a.Signal() // does nothing
	})
}

func TestThenIsCalledOnceAndMayStartOperations(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		second := make(chan error, 2)
		b.Receive(msg.Buffers{make([]byte, 1)}, 1, msg.All).Then(func(i msg.Info, err error) {
			if err != nil || i.Length != 1 {
				t.Errorf("%+v, %v", i, err)
			}
			b.Receive(msg.Buffers{make([]byte, 1)}, 2, msg.All).Then(func(_ msg.Info, err error) { second <- err })
		})
		wait(t, e.Send(1, msg.Buffers{[]byte{1}}, nil))
		wait(t, e.Send(2, msg.Buffers{[]byte{2}}, nil))
		select {
		case err := <-second:
			if err != nil {
				t.Error(err)
			}
		case <-within(t).Done():
			t.Fatal("the second function was not called")
		}
		s := e.Send(3, nil, nil)
		wait(t, s)
		s.Then(func(_ msg.Info, err error) { second <- err })
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// Short messages need no memory once their requests are released, one at a time and when they wait for
// credits.
func TestShortMessagesDoNotAllocate(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller, Unexpected: 16}, func(t *testing.T, a, b *msg.Worker) {
		needOwnProgress(t)
		e := connect(t, a, b)
		data, buf := make([]byte, 8), make([]byte, 8)
		var sends, receives [64]*msg.Request
		send := func(n int) func() {
			return func() {
				for i := range n {
					receives[i] = b.Receive(msg.Buffers{buf}, 1, msg.All)
				}
				for i := range n {
					sends[i] = e.Send(1, msg.Buffers{data}, nil)
				}
				for ended := false; !ended; {
					a.Progress()
					_, ended, _ = receives[n-1].Poll()
				}
				for i := range n {
					sends[i].Release()
					receives[i].Release()
				}
			}
		}
		for _, n := range []int{1, len(sends)} {
			f := send(n)
			for range 1000 / n {
				f()
			}
			if got := testing.AllocsPerRun(1000/n, f); got >= 1 && !raceEnabled {
				t.Errorf("%v allocations for %d messages, expected 0", got, n)
			}
		}
	})
}
