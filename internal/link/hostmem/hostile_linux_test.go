package hostmem

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"softrdma/internal/reason"
)

// A sharedArea has a mapping for each process that uses it, and a third one for a hostile
// process. The race detector does not see that this one overwrites the others.
type sharedArea struct{ ours, theirs, hostile []byte }

func newSharedArea(t testing.TB) sharedArea {
	t.Helper()
	size := AreaSize(1, 1)
	var a sharedArea
	m, err := NewMemory(size)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	a.ours = m.Bytes()
	for _, b := range []*[]byte{&a.theirs, &a.hostile} {
		m, err := MapMemory(m.FD(), size, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		*b = m.Bytes()
	}
	return a
}

// ends returns both ends of the area's ring, empty.
func (a sharedArea) ends(t testing.TB) (*Sender, *Receiver) {
	clear(a.ours[:ringsAt+arenaAt])
	out := NewArea(a.ours, 1, 1)
	in, err := OpenArea(a.theirs, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out.Sender(0, 0), in.Receiver(0, 0)
}

// A vandal overwrites words of an area until it is stopped.
type vandal struct {
	stop atomic.Bool
	wg   sync.WaitGroup
}

// start overwrites the words that pick chooses, with interesting values.
func (v *vandal) start(mem []byte, seed uint64, pick func(rng *rand.Rand) (at int)) {
	v.stop.Store(false)
	v.wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := 0; !v.stop.Load(); i++ {
			w := (*atomic.Uint64)(unsafe.Pointer(&mem[pick(rng)&^7]))
			switch old := w.Load(); rng.IntN(5) {
			case 0:
				w.Store(rng.Uint64())
			case 1:
				w.Store(old + uint64(rng.IntN(5)) - 2)
			case 2:
				w.Store(old ^ 1<<rng.IntN(64))
			case 3:
				w.Store(rng.Uint64() >> rng.IntN(64))
			default: // keep the stamp
				w.Store(old&(1<<32-1) | rng.Uint64()<<32)
			}
			if i%16 == 0 {
				runtime.Gosched()
			}
		}
	})
}

func (v *vandal) end() {
	v.stop.Store(true)
	v.wg.Wait()
}

// A hostile sender writes everything but the receiver's private memory. The receiver gets
// messages within bounds or a fault, and a message does not change after its check.
func TestReceiverSurvivesHostileSender(t *testing.T) {
	a := newSharedArea(t)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	messages, faults := 0, 0
	var into [InlineMax]byte
	headers, payload := pattern(1, MaxHeader), pattern(2, InlineMax)
	var v vandal
	defer v.end() // before the memory is unmapped, also if the test fails
	for round := range rounds {
		s, r := a.ends(t)
		v.start(a.hostile, uint64(round), func(rng *rand.Rand) int {
			if rng.IntN(8) == 0 {
				return ringsAt + wakeAt + rng.IntN(16)
			}
			return ringsAt + slotsAt + rng.IntN(slots)*slotSize/(1<<rng.IntN(8)) + rng.IntN(32)
		})
		var m Received
		for i := range 3000 {
			if i%16 == 0 {
				runtime.Gosched() // to the sender
			}
			s.Copy(&Head{}, headers[:round%MaxHeader], [][]byte{payload[:round]}, round)
			s.Refer(&Head{}, nil, Ref{Offset: 1}, round)
			ok, fault := r.Next(&m)
			if fault.Reason != reason.None {
				faults++
				break
			}
			if !ok {
				r.Arm()
				r.Disarm()
				continue
			}
			messages++
			check(t, &m)
			header, n := bytes.Clone(m.Header), m.Len
			copy(into[:], m.Payload)
			if m.Refers && r.Begin() {
				r.Valid()
			}
			if !bytes.Equal(header, m.Header) || n != m.Len {
				t.Fatal("a message changed after it was read")
			}
			r.Release()
		}
		v.end()
	}
	t.Logf("%d messages, %d faults in %d rounds", messages, faults, rounds)
	if messages == 0 || faults == 0 {
		t.Errorf("%d messages and %d faults, expected some of each", messages, faults)
	}
}

// A hostile receiver writes its words. The sender's numbers stay consistent, and it never
// waits longer than its limit.
func TestSenderSurvivesHostileReceiver(t *testing.T) {
	a := newSharedArea(t)
	rounds := 100
	if testing.Short() {
		rounds = 25
	}
	var refused, late int
	headers, payload := pattern(1, MaxHeader), pattern(2, InlineMax)
	var v vandal
	defer v.end()
	for round := range rounds {
		s, _ := a.ends(t)
		v.start(a.hostile, uint64(round), func(rng *rand.Rand) int {
			return ringsAt + []int{headAt, headAt, copyingAt, armedAt, wantICRCAt}[rng.IntN(5)]
		})
		rng := rand.New(rand.NewPCG(uint64(round), 3))
		var now, consumed uint64
		clock := func() time.Duration { now++; return time.Duration(now) }
		for i := range 3000 {
			if i%16 == 0 {
				runtime.Gosched() // to the receiver
			}
			n := rng.IntN(1 << rng.IntN(17)) // below InlineMax
			h, header := Head{}, headers[:rng.IntN(MaxHeader+1)]
			if rng.IntN(3) == 0 {
				s.Refer(&h, header, Ref{}, n)
			} else if !s.Copy(&h, header, [][]byte{payload[:n]}, n) {
				refused++
			}
			s.Room(1, n)
			s.Armed()
			s.AwaitRoom()
			s.WantICRC()
			if got := s.Consumed(); got < consumed || got > s.Sent() {
				t.Fatalf("consumed %d after %d of %d sent", got, consumed, s.Sent())
			} else {
				consumed = got
			}
			if rng.IntN(100) == 0 {
				before := now
				if !s.Revoke(50, clock) {
					late++
				}
				if now > before+52 {
					t.Fatalf("waited %d, expected at most 50", now-before)
				}
			}
		}
		v.end()
	}
	t.Logf("%d messages found no room, %d copies outlived their limit", refused, late)
	if refused == 0 {
		t.Error("the ring was never full")
	}
}

// Two mappings of one area behave like one.
func TestAreaCrossesMappings(t *testing.T) {
	s, r := newSharedArea(t).ends(t)
	contents := pattern(1, 2*InlineMax)
	for i := range uint64(3 * slots) {
		n := int(i * 37 % (InlineMax + 1))
		header, payload := contents[i:i+28], contents[i:int(i)+n]
		if !s.Copy(&Head{Port: uint16(i)}, header, [][]byte{payload}, n) {
			t.Fatal("no room")
		}
		if m := take(t, r); m.Port != uint16(i) || !bytes.Equal(m.Header, header) || !bytes.Equal(m.Payload, payload) {
			t.Errorf("message %d of %d bytes arrived differently", i, n)
		}
		r.Release()
	}
}
