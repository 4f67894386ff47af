package hostpath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
)

// A bellEnd is an end whose bell is one of the system's.
type bellEnd struct {
	*end
	ringer *hostmem.Ringer // of the peer's bell
}

func (e *bellEnd) Ring(lane int) {
	e.end.Ring(lane)
	e.ringer.Ring()
}

// newBellPair connects two ends, of which b sleeps on bells that a rings.
func newBellPair(t *testing.T) (a, b *end) {
	a, b = newPair(t)
	bells, err := hostmem.NewBells()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bells.Close)
	b.Bells, b.channel.Owner = bells, b.channel
	bell, err := bells.Add(b.channel.Owner)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(bell.FD())
	if err != nil {
		t.Fatal(err)
	}
	ringer, err := hostmem.OpenRinger(fd, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ringer.Close() })
	a.channel.Far = &bellEnd{a, ringer}
	return a, b
}

// A sleep is a Sleeper that calls a function instead of sleeping.
type sleep func()

func (s sleep) Wait(time.Duration) error { s(); return nil }

func TestRingThatIsNotPolledIsWokenByItsBell(t *testing.T) {
	a, b := newBellPair(t)
	for range coolAfter + 2 {
		b.Receive(0)
	}
	if len(b.polled) != 0 {
		t.Fatal("the ring is still polled")
	}
	a.send(t, 8, false)
	if b.rung != 1 {
		t.Fatalf("rang %d times, expected once", b.rung)
	}
	b.AskLink(linkEvery)
	if b.Receive(0); len(b.got) != 1 {
		t.Fatalf("found %d messages, expected 1", len(b.got))
	}
	a.send(t, 8, false)
	b.Receive(0)
	a.send(t, 8, false)
	if b.Receive(0); len(b.got) != 3 || b.rung != 1 {
		t.Errorf("found %d messages and rang %d times, expected 3 and once: the ring is polled", len(b.got), b.rung)
	}
}

// While one goroutine sleeps, others poll. Whatever they do, the next message ends the sleep.
func TestSleeperIsWokenBesidePollers(t *testing.T) {
	for name, poll := range map[string]func(t *testing.T, a, b *end){
		"nobody": func(*testing.T, *end, *end) {},
		"takes a message": func(t *testing.T, a, b *end) {
			a.send(t, 8, false)
			b.Receive(0)
		},
		"answers the bell": func(t *testing.T, a, b *end) {
			a.send(t, 8, false)
			b.answer()
			b.Receive(0)
		},
		"ends polling the ring": func(t *testing.T, a, b *end) {
			for range coolAfter + 2 {
				b.Receive(0)
			}
		},
		"polls the ring again": func(t *testing.T, a, b *end) {
			for range coolAfter + 2 {
				b.Receive(0)
			}
			a.send(t, 8, false)
			b.answer()
			b.Receive(0)
		},
		"adds a path": func(t *testing.T, a, b *end) {
			b.Remove(b.channel)
			b.Add(b.channel, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBellPair(t)
			_ = b.Wait(sleep(func() {
				poll(t, a, b)
				a.send(t, 8, false)
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.Bells.FD()), Events: unix.POLLIN}}, 0)
				if n != 1 || err != nil {
					t.Errorf("%d descriptors are readable (%v), expected 1: no bell ends the sleep", n, err)
				}
			}), -1)
			for b.Receive(0) {
			}
			if len(a.refused)+len(b.refused) > 0 {
				t.Errorf("refused %v, %v", a.refused, b.refused)
			}
			before := b.rung
			a.send(t, 8, false)
			if b.rung != before {
				t.Error("rings though nobody sleeps")
			}
		})
	}
}

// A ring that is polled only now and then changes that for each message.
func TestSleepingAllocatesNothing(t *testing.T) {
	a, b := newBellPair(t)
	b.Port = sink{b}
	link := sleep(func() {
		for _, r := range b.polled {
			r.quiet = coolAfter
		}
		a.send(t, 8, false)
	})
	round := func() {
		_ = b.Wait(link, -1)
		for b.Receive(0) {
		}
		for range 2 {
			for _, r := range b.polled {
				r.quiet = coolAfter
			}
			b.Receive(0)
		}
		if len(b.polled) != 0 {
			t.Fatal("the ring is still polled")
		}
		a.send(t, 8, false)
		b.answer()
		for b.Receive(0) {
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
