package carrier_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/verbs"
)

var lossy = simnet.Faults{Delay: 10 * time.Microsecond, Jitter: 5 * time.Microsecond, Loss: .05, Reorder: .05, Duplicate: .05}

const bodyLen = 3000

// body returns bytes that depend on i alone.
func body(i, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(b)
	return b
}

// Frames of one packet and of several arrive whole, once and in order, though packets are lost,
// repeated and change places.
func TestFramesArriveWholeAndInOrderSeeds(t *testing.T) {
	sizes := []int{0, 1, 900, 1024 - session.HeaderLen, 1025 - session.HeaderLen, 4096, frameLen - session.HeaderLen}
	bubble.Seeds(t, 10, func(t *testing.T, seed uint64) (wrong []string) {
		a, b := ends(t, seed, lossy, 16)
		const frames = 3 * slots
		for i := range frames {
			slot := i % slots
			a.await("the slot is free", func() bool { return a.sent[slot] == i/slots })
			a.send(slot, body(i, sizes[i%len(sizes)]))
		}
		b.await("all frames have arrived", func() bool { return len(b.arrived) == frames })
		a.await("all frames have left", func() bool { return a.sent[slots-1] == frames/slots })
		for i, f := range b.arrived {
			if int(f.Slot) != i%slots || !bytes.Equal(f.copy, body(i, sizes[i%len(sizes)])) {
				wrong = append(wrong, fmt.Sprintf("frame %d: slot %d with %d bytes", i, f.Slot, len(f.copy)))
			}
		}
		b.arrived = nil // nothing is kept
		return wrong
	})
}

// Frames beyond the receives of the peer wait at the sender, while the owner there keeps what has
// arrived. Nothing overwrites that.
func TestFramesWaitForReceivesThatAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const receives, credits = 8, 6 // two are for frames that only give credit
		a, b := ends(t, 1, simnet.Faults{}, receives)
		b.keep = true
		for i := range slots {
			a.send(i, body(i, 100+i))
		}
		for next := 0; next < slots; {
			b.await("a frame has arrived", func() bool { return len(b.arrived) > 0 })
			time.Sleep(time.Second)
			b.locked(func() {
				if n := len(b.arrived); n != min(credits, slots-next) {
					t.Errorf("%d frames have arrived behind the first %d, expected %d", n, next, min(credits, slots-next))
				}
				for _, f := range b.arrived {
					if int(f.Slot) != next || !bytes.Equal(f.body, body(next, 100+next)) {
						t.Errorf("frame %d: found slot %d, or other bytes", next, f.Slot)
					}
					next++
				}
				b.release()
				b.e.Flush()
			})
		}
		if n := b.rnr(); n != 0 {
			t.Errorf("%d messages found no receive", n)
		}
	})
}

// More control frames than have memory wait for it, and for the peer's receives.
func TestControlFramesWaitForMemoryAndReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := ends(t, 1, simnet.Faults{}, 8)
		const frames = 50
		a.locked(func() {
			for i := range frames {
				h := session.Header{Kind: session.Cancel, Sequence: uint32(i), Length: uint64(i)}
				b := make([]byte, session.HeaderLen)
				h.Put(b)
				a.c.Add(append(b, body(i, i)...))
			}
			a.e.Flush()
		})
		b.await("all frames have arrived", func() bool { return len(b.arrived) == frames })
		for i, f := range b.arrived {
			if f.Kind != session.Cancel || int(f.Sequence) != i || !bytes.Equal(f.copy, body(i, i)) {
				t.Errorf("frame %d: found %+v with %d bytes", i, f.Header, len(f.copy))
			}
		}
		b.arrived = nil // nothing is kept
		a.await("all frames have left", func() bool { return !a.c.Busy() })
		if n := b.rnr(); n != 0 {
			t.Errorf("%d messages found no receive", n)
		}
	})
}

// An end without credits may have fewer receives than it usually posts at once. Its owner may keep all but
// one of them.
func TestFewReceivesArePostedAgain(t *testing.T) {
	for receives := 1; receives < session.MinReceives; receives++ {
		synctest.Test(t, func(t *testing.T) {
			a, b := ends(t, 1, simnet.Faults{}, receives)
			for kept := range receives {
				b.keep = true
				for i := range kept {
					a.send(i, body(i, 100))
				}
				b.await("the frames to keep have arrived", func() bool { return len(b.arrived) == kept })
				b.keep = false
				for i := kept; i < slots; i++ {
					a.send(i, body(i, 100))
				}
				b.await("all frames have arrived", func() bool { return len(b.arrived) == slots })
				b.locked(func() {
					b.arrived = b.arrived[:kept]
					b.release()
				})
				a.await("all frames have left", func() bool { return a.sent[slots-1] == kept+1 })
			}
		})
	}
}

// A connection that gives few frames a completion sends on when all of its slots are in flight, and an owner
// that waits for the end of one frame gets it.
func TestFewCompletionsFreeAllSlots(t *testing.T) {
	few := func(cfg *carrier.ConnConfig) { cfg.Every = 1000 }
	none := func(cfg *carrier.ConnConfig) { cfg.Out, cfg.OutSlots = nil, 0 }
	synctest.Test(t, func(t *testing.T) {
		a, b := ends(t, 1, simnet.Faults{}, 40, few, none)
		const frames = 100
		a.locked(func() {
			for range frames {
				b := make([]byte, session.HeaderLen)
				h := session.Header{Kind: session.Cancel}
				h.Put(b)
				a.c.Add(b)
			}
			a.e.Flush()
		})
		b.await("all frames have arrived", func() bool { return len(b.arrived) == frames })
		b.arrived = nil // nothing is kept
	})
	synctest.Test(t, func(t *testing.T) {
		a, _ := ends(t, 1, simnet.Faults{}, 40, few)
		a.send(0, nil)
		a.await("the frame has left", func() bool { return a.sent[0] == 1 })
	})
}

// A frame that is longer than a slot of the connection is not sent in part.
func TestFrameLongerThanASlotEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := ends(t, 1, simnet.Faults{}, 8)
		a.locked(func() {
			if a.c.Reserve(257) != nil {
				t.Error("there is memory for a frame of 257 bytes in slots of 256")
			}
			a.c.Add(make([]byte, 257))
			a.e.Flush()
		})
		a.await("the connection has ended", func() bool { return a.broken == 1 })
		if !errors.Is(a.c.Err, carrier.ErrTooLong) {
			t.Errorf("it ended with %v, expected %v", a.c.Err, carrier.ErrTooLong)
		}
		b.await("the peer's connection has ended", func() bool { return b.broken == 1 })
		if len(b.arrived) > 0 {
			t.Errorf("a part of the frame has arrived: %+v", b.arrived)
		}
	})
}

// An owner may call Flush in all of its methods.
func TestFlushInPushReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := ends(t, 1, simnet.Faults{}, 8)
		a.locked(func() { a.flush = true })
		a.send(0, nil)
		b.await("the frame has arrived", func() bool { return len(b.arrived) == 1 })
		b.arrived = nil // nothing is kept
	})
}

// far returns memory that the peer may read, with bytes that depend on i.
func (x *end) far(i, n int) carrier.Move {
	x.t.Helper()
	s, err := x.domain.Span(n, verbs.RemoteRead, x.e.First())
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(s.Free)
	copy(s.Bytes(), body(i, n))
	r, err := s.On(x.e.First())
	if err != nil {
		x.t.Fatal(err)
	}
	return carrier.Move{Slot: i, Address: r.Addr(), Key: r.RKey()}
}

// read reads n bodies of the peer.
func (x *end) read(peer *end, n int) {
	x.t.Helper()
	x.into = make([]carrier.Span, n)
	for i := range x.into {
		m := peer.far(i, bodyLen)
		var err error
		if x.into[i], err = x.domain.Span(bodyLen, verbs.LocalWrite, x.e.First()); err != nil {
			x.t.Fatal(err)
		}
		x.t.Cleanup(x.into[i].Free)
		m.By, m.Data = x, x.into[i].Bytes()
		x.locked(func() {
			x.c.Move(m)
			x.e.Flush()
		})
	}
}

// Bodies beyond the READs that may be in flight are read later.
func TestBodiesAreReadWholeSeeds(t *testing.T) {
	bubble.Seeds(t, 10, func(t *testing.T, seed uint64) (wrong []string) {
		a, b := ends(t, seed, lossy, 8)
		const bodies = 50
		a.read(b, bodies)
		a.await("all bodies were read", func() bool { return len(a.moved) == bodies })
		for i := range a.into {
			if errs := a.moved[i]; len(errs) != 1 || errs[0] != nil || !bytes.Equal(a.into[i].Bytes(), body(i, bodyLen)) {
				wrong = append(wrong, fmt.Sprintf("body %d: it ended with %v, or has other bytes", i, errs))
			}
		}
		return wrong
	})
}

// A connection ends with frames in flight, frames that wait for receives, READs in flight and READs
// that wait. The owner hears of each exactly once, and of the end last.
func TestEndOfAConnectionSettlesEverythingOnce(t *testing.T) {
	for name, end := range map[string]func(a, b *end){
		"this end":     func(a, _ *end) { a.fail() },
		"the peer":     func(_, b *end) { b.fail() },
		"peer's power": func(_, b *end) { b.host.Kill() },
		"its device":   func(a, _ *end) { _ = a.host.Device.Close() },
		"peer's device": func(_, b *end) {
			if err := b.host.Device.Close(); err != nil {
				b.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := ends(t, 1, simnet.Faults{Delay: time.Second}, 8)
				b.keep = true
				const bodies = 20
				for i := range slots {
					a.send(i, body(i, 100))
				}
				a.read(b, bodies)
				end(a, b)
				a.await("the connection has ended", func() bool { return a.broken == 1 })
				b.await("the peer's connection has ended", func() bool { return b.broken == 1 })
				for i, n := range a.sent {
					if n != 1 {
						t.Errorf("slot %d was given back %d times", i, n)
					}
				}
				for i := range bodies {
					if errs := a.moved[i]; len(errs) != 1 || errs[0] == nil {
						t.Errorf("the READ of slot %d ended with %v, expected one error", i, errs)
					}
				}
				if a.c.Err == nil || b.c.Err == nil {
					t.Errorf("expected errors at both ends, found %v and %v", a.c.Err, b.c.Err)
				}
			})
		})
	}
}

// The owner hears nothing of a connection that was not started when its device closed.
func TestOwnerHearsNothingBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bubble.New(1, simnet.LinkConfig{})
		t.Cleanup(w.End)
		x := newEnd(t, w, "127.0.0.1")
		c, err := x.e.NewConn(x.config(8), func(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
			qp, err := pd.CreateQP(cfg)
			if err == nil {
				err = qp.ToInit(verbs.InitAttr{})
			}
			return qp, err
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = x.host.Device.Close()
		x.await("the connection has failed", func() bool { return c.Err != nil })
		c.Discard()
		if x.drained+x.broken > 0 {
			t.Errorf("the owner was asked to drain %d times, and told of %d ends", x.drained, x.broken)
		}
	})
}

// What an owner has kept stays readable when the connection has ended, until the last of it is
// released.
func TestKeptReceivesOutliveTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := ends(t, 1, simnet.Faults{}, 8)
		b.keep = true
		for i := range 3 {
			a.send(i, body(i, 1000))
		}
		b.await("the frames have arrived", func() bool { return len(b.arrived) == 3 })
		before := b.host.Device.Counts().MR
		b.fail()
		b.await("the connection has ended", func() bool { return b.broken == 1 })
		if n := b.host.Device.Counts().MR; n != before-2 { // those of frames and of receives
			t.Errorf("%d regions are left of %d, expected two less", n, before)
		}
		b.e.Lock()
		defer b.e.Unlock()
		for i, f := range b.arrived {
			if !bytes.Equal(f.body, body(i, 1000)) {
				t.Errorf("frame %d has other bytes after the end", i)
			}
		}
		for i, f := range b.arrived {
			b.c.Release(f.at)
			if i < 2 && !bytes.Equal(b.arrived[2].body, body(2, 1000)) {
				t.Errorf("the last frame has other bytes after %d of 3 releases", i+1)
			}
		}
		b.arrived = nil
	})
}

func TestWrongFrameEndsTheConnection(t *testing.T) {
	refused := errors.New("refused")
	credit := func(consumed uint32) []byte {
		b := make([]byte, session.HeaderLen)
		h := session.Header{Kind: session.Credit, Consumed: consumed}
		h.Put(b)
		return b
	}
	for name, c := range map[string]struct {
		raw    []byte
		refuse error // by the owner
		want   error // nil if the connection continues
	}{
		"right":                             {credit(0), nil, nil},
		"a part of a header":                {credit(0)[:session.HeaderLen-1], nil, session.ErrProtocol},
		"nothing":                           {nil, nil, session.ErrProtocol},
		"consumed more than there was":      {credit(1), nil, session.ErrProtocol},
		"consumed before the counter began": {credit(1<<32 - 1), nil, session.ErrProtocol},
		"refused by the owner":              {credit(0), refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := ends(t, 1, simnet.Faults{}, 8)
				b.refuse = c.refuse
				a.locked(func() {
					if !a.c.Raw(c.raw) {
						t.Error("the frame was not sent")
					}
					a.e.Flush()
				})
				if c.want == nil {
					a.await("the frame has left", func() bool { return !a.c.Busy() })
					time.Sleep(time.Second)
					b.refuse = nil
					a.send(0, nil)
					b.await("the next frame has arrived", func() bool { return len(b.arrived) == 1 })
					b.arrived = nil // nothing is kept
					return
				}
				b.await("the connection has ended", func() bool { return b.broken == 1 })
				if !errors.Is(b.c.Err, c.want) {
					t.Errorf("it ended with %v, expected %v", b.c.Err, c.want)
				}
				a.await("the peer's connection has ended", func() bool { return a.broken == 1 })
			})
		})
	}
}
