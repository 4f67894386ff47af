package msg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/msg"
	"softrdma/verbs"
)

// onRings runs a test with two workers of which messages go through shared memory.
func onRings(t *testing.T, c msg.Config, f func(t *testing.T, a, b *msg.Worker)) {
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		if !taken.rings() {
			t.Skip("SKIPPED: another path")
		}
		f(t, a, b)
	})
}

// The devices carry none of the bytes of messages that go through rings.
func TestMessagesThroughRingsDoNotUseTheDevice(t *testing.T) {
	onRings(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		e, back := connectBoth(t, a, b)
		before, _ := a.Device().Traffic()
		before2, _ := b.Device().Traffic()
		data, got := random(1000), make([]byte, 1000)
		for i := range uint64(1000) {
			s, r := e, b
			if i%2 == 1 {
				s, r = back, a
			}
			q := r.Receive(msg.Buffers{got}, i, msg.All)
			s.Send(i, msg.Buffers{data}, nil)
			if info := wait(t, q); info.Length != len(data) || !bytes.Equal(got, data) {
				t.Fatalf("message %d: other bytes", i)
			}
			clear(got)
		}
		after, _ := a.Device().Traffic()
		after2, _ := b.Device().Traffic()
		if n := after - before + after2 - before2; n > 1000 {
			t.Errorf("the devices sent %d bytes for messages of %d", n, 1000*len(data))
		}
	})
}

// While a capture is open, its device carries the frames of endpoints that are made.
func TestCapturesSeeMessages(t *testing.T) {
	withoutRings(t) // connect does not wait for them
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		if taken.config.SameHost != verbs.SameHostRequire {
			t.Skip("SKIPPED: another path")
		}
		defer msg.LimitRings(1)()
		c, err := b.Device().Capture(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		e := connect(t, a, b)
		before, _ := a.Device().Traffic()
		for i := range uint64(300) { // more than the way into rings takes
			q := b.Receive(msg.Buffers{make([]byte, 100)}, i, msg.All)
			e.Send(i, msg.Buffers{make([]byte, 100)}, nil)
			wait(t, q)
		}
		if after, _ := a.Device().Traffic(); after-before < 300*100 {
			t.Errorf("the device sent %d bytes for messages of %d", after-before, 300*100)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// More frames than the ring has room for wait. They arrive in order, also when both ends sleep, and Flush
// and Close wait for them.
func TestFramesWaitForRoomInTheRing(t *testing.T) {
	for _, progress := range []msg.Progress{msg.ProgressPackage, msg.ProgressCaller} {
		t.Run(fmt.Sprint(progress), func(t *testing.T) {
			onRings(t, msg.Config{Unexpected: msg.MaxUnexpected, Progress: progress}, func(t *testing.T, a, b *msg.Worker) {
				const n = 600 // of 8 KiB: 4.7 MiB
				e := connect(t, a, b)
				data := random(8 << 10)
				var sends []*msg.Request
				for i := range n {
					sends = append(sends, e.Send(uint64(i), msg.Buffers{data[i:]}, nil))
				}
				closing := e.StartClose()
				buf := make([]byte, len(data))
				for i := range n {
					q := b.Receive(msg.Buffers{buf}, 0, 0)
					for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Duration(i%2) * time.Millisecond / 8) {
						a.Progress()
						info, ended, err := q.Poll()
						if err != nil || time.Now().After(end) {
							t.Fatalf("message %d: %v", i, err)
						}
						if ended {
							if info.Tag != uint64(i) || !bytes.Equal(buf[:info.Length], data[i:]) {
								t.Fatalf("message %d: tag %d, %d bytes", i, info.Tag, info.Length)
							}
							break
						}
					}
				}
				for _, s := range sends {
					wait(t, s)
				}
				wait(t, closing)
			})
		})
	}
}

// A peer that writes nonsense into its ring loses the connection, and nothing else happens.
func TestDamagedRingEndsTheConnection(t *testing.T) {
	onRings(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		e, back := connectBoth(t, a, b)
		pending := b.Receive(msg.Buffers{make([]byte, 8)}, 1, msg.All)
		late := back.Send(2, nil, &msg.SendOptions{Sync: true})
		mem := a.RingMemory()
		for i := 512; i < len(mem); i++ {
			mem[i] = 0xee
		}
		_, err := late.Wait(within(t))
		if !errors.Is(err, msg.ErrPeer) || !strings.Contains(err.Error(), "ring in shared memory is damaged") {
			t.Errorf("found %v", err)
		}
		if _, ended, _ := pending.Poll(); ended {
			t.Error("a receive ends with a peer")
		}
		s := e.Send(3, nil, &msg.SendOptions{Sync: true})
		if _, err := s.Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("found %v", err)
		}
		again, _ := connectBoth(t, a, b)
		again.Send(1, msg.Buffers{make([]byte, 8)}, nil)
		wait(t, pending)
	})
}

func TestRingsLeaveNoMappings(t *testing.T) {
	onRings(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		before := testenv.Mappings(t)
		for i := range 20 {
			e, back := connectBoth(t, a, b)
			for _, x := range []*msg.Endpoint{e, back} {
				wait(t, x.Send(1, nil, nil))
			}
			if i%2 == 0 {
				e.Abort()
			} else {
				wait(t, e.StartClose())
			}
		}
		for end := time.Now().Add(20 * time.Second); testenv.Mappings(t) > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d mappings, expected %d", testenv.Mappings(t), before)
			}
		}
	})
}

// Connections beyond the limit, and those to peers that do not share memory, use queue pairs.
func TestWorkersHaveFewRings(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		if !taken.rings() {
			t.Skip("SKIPPED: another path")
		}
		connect(t, a, b)
		withoutRings(t)
		e := connect(t, a, b)
		for i := range uint64(300) {
			q := b.Receive(msg.Buffers{make([]byte, 8)}, i, msg.All)
			e.Send(i, msg.Buffers{make([]byte, 8)}, nil)
			wait(t, q)
		}
		if a.Ringed() {
			t.Error("there are more rings than the limit")
		}
	})
}

// pump makes progress on a worker until the test ends.
func pump(t testing.TB, w *msg.Worker) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				w.Progress()
				time.Sleep(time.Microsecond)
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-ended
	})
}

// Frames that wait for the queue pair when the endpoint gets its ring leave by the queue pair, and those
// after them through the ring. There are more of both than either has room for.
func TestFramesThatWaitWhenTheRingComesArriveInOrder(t *testing.T) {
	for _, progress := range []msg.Progress{msg.ProgressPackage, msg.ProgressCaller} {
		onRings(t, msg.Config{Unexpected: msg.MaxUnexpected, Progress: progress}, func(t *testing.T, a, b *msg.Worker) {
			const n = 1000
			pump(t, b)
			e, err := a.Connect(within(t), b.Address())
			if err != nil {
				t.Fatal(err)
			}
			data := random(8 << 10)
			var receives []*msg.Request
			var bufs [n][]byte
			for i := range n {
				bufs[i] = make([]byte, len(data))
				receives = append(receives, b.Receive(msg.Buffers{bufs[i]}, 0, 0))
			}
			for i := range n {
				e.Send(uint64(i), msg.Buffers{data[i:]}, nil)
			}
			wait(t, e.Flush())
			for i, r := range receives {
				if info := wait(t, r); info.Tag != uint64(i) || !bytes.Equal(bufs[i][:info.Length], data[i:]) {
					t.Fatalf("message %d: tag %d, %d bytes", i, info.Tag, info.Length)
				}
			}
		})
	}
}

// entered connects two workers without more progress of b than the ring from a needs.
func entered(t *testing.T, a, b *msg.Worker) *msg.Endpoint {
	e, err := a.Connect(within(t), b.Address())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !a.Sending(); {
		b.Progress()
		for range 20 {
			if a.Progress(); a.Sending() {
				break
			}
			time.Sleep(20 * time.Microsecond)
		}
		if time.Now().After(end) {
			t.Fatal("frames do not go through shared memory")
		}
	}
	return e
}

// What was flushed is received, also if the sender aborts before the receiver looks, and Close does not
// wait for the receiver's program.
func TestFlushedMessagesSurviveTheEndOfTheSender(t *testing.T) {
	for name, end := range map[string]func(e *msg.Endpoint) error{
		"abort": func(e *msg.Endpoint) error { e.Abort(); return nil },
		"close": func(e *msg.Endpoint) error { return e.Close(within(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			onRings(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
				e := entered(t, a, b)
				const n = 60 // sends that do not wait for credits
				for i := range uint64(n) {
					e.Send(i, msg.Buffers{[]byte("hello")}, nil)
				}
				wait(t, e.Flush())
				if err := end(e); err != nil {
					t.Fatal(err)
				}
				for i := range uint64(n) {
					wait(t, b.Receive(msg.Buffers{make([]byte, 5)}, i, msg.All))
				}
			})
		})
	}
}

// A worker that falls asleep while a peer enters its ring is woken, or takes the message at once.
func TestSleeperNoticesAPeerThatEntersItsRing(t *testing.T) {
	onRings(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		e := entered(t, a, b)
		e.Send(1, msg.Buffers{[]byte("hello")}, nil)
		for range 100 { // the frames are in b's queue
			a.Progress()
			time.Sleep(100 * time.Microsecond)
		}
		r := b.Receive(msg.Buffers{make([]byte, 8)}, 1, msg.All)
		for end := time.Now().Add(20 * time.Second); !b.SleepUntil(r, 10*time.Second); {
			if time.Now().After(end) {
				t.Fatal("a worker sleeps although a message is there")
			}
		}
	})
}

// An access ends while frames come all the time.
func TestBusyRingsDoNotHoldUpDevices(t *testing.T) {
	for _, frames := range []int{8, 40} {
		onRings(t, msg.Config{Progress: msg.ProgressCaller, Unexpected: msg.MaxUnexpected}, func(t *testing.T, a, b *msg.Worker) {
			e, back := connectBoth(t, a, b)
			r, err := a.Allocate(1<<16, msg.AllowAll)
			if err != nil {
				t.Fatal(err)
			}
			m, err := back.Remote(r.Key())
			if err != nil {
				t.Fatal(err)
			}
			look := func() {
				for range frames {
					b.Receive(msg.Buffers{make([]byte, 8)}, 0, 0)
					e.Send(1, nil, nil)
				}
				b.Progress()
				a.Progress()
			}
			for range 50 {
				look()
			}
			g := m.Get(0, msg.Buffers{make([]byte, 4096)})
			for i := 0; !g.Ended(); i++ {
				if look(); i == 1000 {
					t.Fatalf("%d frames a look: a get does not end in %d looks", frames, i)
				}
			}
		})
	}
}

// A handler sees the difference between no data and data that it has to read.
func TestEmptyActiveMessageHasData(t *testing.T) {
	onRings(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		announced := make(chan bool, 1)
		b.Handle(1, func(m *msg.Active) { announced <- m.Data == nil })
		if e.SendActive(1, nil, nil, nil); next(t, announced) {
			t.Error("empty data counts as announced")
		}
	})
}

// A peer that has stopped does not say where its memory is. Nothing waits for it longer than its caller, or
// than the endpoint.
func TestViewsOfAStoppedPeerEnd(t *testing.T) {
	onRings(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, _ *msg.Worker) {
		p, address, key := startPeer(t)
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, p.Process())
		if !e.TakeOffer() {
			t.Fatal("Connect took a message")
		}
		m, err := e.Remote(key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(within(t))
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := m.View(ctx); !errors.Is(err, msg.ErrNoView) || !errors.Is(err, context.Canceled) {
			t.Errorf("view: %v, expected %v and %v", err, msg.ErrNoView, context.Canceled)
		}
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		if err := next(t, closed); err != nil {
			t.Error(err)
		}
	})
}
