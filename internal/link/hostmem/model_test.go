package hostmem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/reason"
)

// A sent is the model's record of an unreleased message.
type sent struct {
	head    Head
	header  []byte
	payload []byte
	ref     Ref
	refers  bool
	revoked bool
}

// startAt makes a ring begin with message number n instead of 0.
func startAt(s *Sender, r *Receiver, n uint64) {
	s.sent, s.taken, s.checked = n, n, n
	s.place.next = uint32(n) &^ (arenaSize - 1)
	s.place.freed = s.place.next
	r.next = n
	r.head.Store(n)
	for i := n; i < n+slots; i++ {
		shared(s.slots, int(i%slots)*slotSize).Store(uint64(stampOf(i) - 1))
	}
}

// A model is a plain queue with the expected behaviour of a ring.
type model struct {
	*testing.T
	rng   *rand.Rand
	s     *Sender
	r     *Receiver
	queue []sent
	seed  uint64

	batch  int // messages since the last End
	before int // messages in queue before them
}

func TestRingIsAQueue(t *testing.T) {
	for _, first := range []uint64{0, slots - 3, 1<<32 - 100, (1<<32-1)*slots - 100} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			m := &model{T: t, rng: rand.New(rand.NewPCG(first, 1))}
			m.s, m.r = newRing(t)
			startAt(m.s, m.r, first)
			steps := 30000
			if testing.Short() {
				steps /= 4
			}
			filling := true
			for i := 0; i < steps && !t.Failed(); i++ {
				if m.rng.IntN(500) == 0 {
					filling = !filling
				}
				switch k := m.rng.IntN(100); {
				case k == 0:
					m.revoke()
				case (k < 65) == filling:
					m.send()
				default:
					m.take()
				}
			}
		})
	}
}

// send publishes a message of random size, if the ring has room.
func (m *model) send() {
	m.seed++
	msg := sent{
		head:   Head{Kind: Kind(m.seed % 2), TrafficClass: uint8(m.seed), HopLimit: uint8(m.seed >> 8), Port: uint16(m.seed), Train: uint16(m.seed >> 3)},
		header: pattern(m.seed, m.rng.IntN(MaxHeader+1)),
	}
	n := m.rng.IntN([]int{16, 200, 5000, InlineMax + 1}[m.rng.IntN(4)])
	msg.refers = m.rng.IntN(4) == 0
	room := m.s.Room(1, n)
	before := m.s.Sent()
	var ok bool
	if msg.refers {
		msg.ref, msg.payload = Ref{uint32(m.seed), m.seed << 40}, make([]byte, n)
		if m.rng.IntN(2) == 0 {
			ok = m.s.Refer(&msg.head, msg.header, msg.ref, n)
		} else if ok = m.s.AppendRef(&msg.head, msg.header, msg.ref, n); ok {
			m.appended()
		}
	} else if b := m.s.Slot(len(msg.header) + n); b != nil && m.rng.IntN(2) == 0 {
		msg.payload, ok = pattern(m.seed, n), true
		copy(b[copy(b, msg.header):], msg.payload)
		m.s.Append(&msg.head, len(msg.header), n)
		m.appended()
	} else {
		msg.payload = pattern(m.seed, n)
		ok = m.s.Copy(&msg.head, msg.header, split(msg.payload, m.rng.IntN(4)+1), n)
	}
	if room && !ok {
		m.Errorf("no room for %d bytes, though Room said so, with %d messages", n, len(m.queue))
	}
	if !ok && len(m.queue) == 0 {
		m.Errorf("no room for %d bytes in an empty ring", n)
	}
	if ok {
		m.queue = append(m.queue, msg)
		before++
	}
	if m.s.Sent() != before || m.s.Sent()-m.s.Consumed() != uint64(len(m.queue)) {
		m.Errorf("sent %d, consumed %d, with %d messages under way", m.s.Sent(), m.s.Consumed(), len(m.queue))
	}
}

// appended counts a message that the next End publishes.
func (m *model) appended() {
	if m.batch == 0 {
		m.before = len(m.queue)
	}
	if m.batch++; m.batch == maxBatch {
		m.batch = 0
	}
}

// end ends a batch.
func (m *model) end() {
	m.s.End()
	m.batch = 0
}

// visible returns how many messages the receiver can see.
func (m *model) visible() int {
	if m.batch > 0 {
		return m.before
	}
	return len(m.queue)
}

// take compares the next message with the model.
func (m *model) take() {
	if m.rng.IntN(20) == 0 {
		m.end()
	}
	var got Received
	ok, fault := m.r.Next(&got)
	if fault.Reason != reason.None || ok != (m.visible() > 0) {
		m.Fatalf("message: %v, fault %v, with %d messages under way, %d of them visible", ok, fault, len(m.queue), m.visible())
	}
	if !ok {
		return
	}
	want := m.queue[0]
	m.queue = m.queue[1:]
	m.before--
	if got.Head != want.head || got.Refers != want.refers || got.Ref != want.ref || got.Len != len(want.payload) || !bytes.Equal(got.Header, want.header) {
		m.Errorf("found %+v, expected %+v", got, want)
	}
	if want.refers {
		if m.r.Begin() == want.revoked || m.r.Valid() == want.revoked {
			m.Errorf("usable: %v, expected %v", !want.revoked, want.revoked)
		}
	} else if !bytes.Equal(got.Payload, want.payload) {
		m.Errorf("another payload of %d bytes", got.Len)
	}
	m.r.Release()
	referring := false
	for _, x := range m.queue {
		referring = referring || x.refers && !x.revoked
	}
	if referring && !m.s.Referring() {
		m.Error("references left that Referring does not see")
	}
}

func (m *model) revoke() {
	for i := range m.queue {
		m.queue[i].revoked = true
	}
	if !m.s.Revoke(0, func() time.Duration { return 0 }) {
		m.Error("Revoke waits though nothing is copied")
	}
}

// A signal is a bell without a descriptor.
type signal chan struct{}

func (s signal) ring() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Both sides sleep whenever they can. A lost wake-up would hang this test.
func TestSleepersAreWoken(t *testing.T) {
	const messages = 30000
	for _, n := range []int{0, 100, 9000} {
		s, r := newRing(t)
		toReceiver, toSender := make(signal, 1), make(signal, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			var m Received
			for i := uint64(0); i < messages; {
				ok, fault := r.Next(&m)
				switch {
				case fault.Reason != reason.None:
					t.Error(fault)
					return
				case ok:
					if len(m.Payload) != n || n > 0 && m.Payload[n-1] != byte(i) || m.Port != uint16(i) {
						t.Errorf("message %d: %d bytes, number %d", i, len(m.Payload), m.Port)
						return
					}
					i++
					if r.Release() {
						toSender.ring()
					}
				case r.Arm():
					<-toReceiver
					r.Disarm()
				}
			}
		}()
		payload := make([]byte, n)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := uint64(0); i < messages; {
			for range 1 + rng.IntN(300) {
				if n > 0 {
					payload[n-1] = byte(i)
				}
				if i == messages {
					break
				}
				if b := s.Slot(n); b != nil && rng.IntN(8) > 0 {
					copy(b, payload)
					s.Append(&Head{Port: uint16(i)}, 0, n)
				} else if !s.Copy(&Head{Port: uint16(i)}, nil, [][]byte{payload}, n) {
					break
				}
				i++
			}
			if s.Armed() {
				toReceiver.ring()
			}
			if !s.Room(1, n) && s.AwaitRoom() {
				<-toSender
			}
			if rng.IntN(10) == 0 {
				runtime.Gosched()
			}
		}
		<-done
	}
}

// One goroutine takes messages now and then, while another one sleeps and relies on the bell
// for the last message.
func TestSleeperIsWokenDespitePoller(t *testing.T) {
	const rounds = 3000
	s, r := newRing(t)
	bell := make(signal, 1)
	var taken atomic.Uint64
	var mu sync.Mutex // the lane's lock, which Arm does not take
	poll := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		var m Received
		for range n {
			ok, fault := r.Next(&m)
			if fault.Reason != reason.None {
				t.Error(fault)
			}
			if !ok {
				return
			}
			r.Release()
			taken.Add(1)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for taken.Load() < rounds {
			if r.Arm() {
				<-bell
				r.Disarm()
			}
			poll(slots)
		}
	}()
	for i := range rounds {
		s.Copy(&Head{}, nil, nil, 0)
		if s.Armed() {
			bell.ring()
		}
		if i%2 == 0 {
			select { // records the ring for the sleeper
			case <-bell:
			default:
			}
			poll(slots)
		}
		for s.Sent()-s.Consumed() > 2 {
			runtime.Gosched()
		}
	}
	for taken.Load() < rounds {
		runtime.Gosched()
	}
	select {
	case <-done:
	default:
		r.Disarm()
		bell.ring()
		<-done
	}
}

// A sender changes memory as soon as Revoke or the release of its message permits it. The race
// detector checks that the receiver never reads it at another time.
func TestRevokedMemoryIsNotRead(t *testing.T) {
	const rounds = 20000
	s, r := newRing(t)
	var block [64]byte
	var stop atomic.Bool
	var taken, lost int
	done := make(chan struct{})
	go func() {
		defer close(done)
		var m Received
		for {
			ok, fault := r.Next(&m)
			if fault.Reason != reason.None {
				t.Error(fault)
				return
			}
			if !ok {
				if stop.Load() && s.sent == r.next {
					return
				}
				runtime.Gosched()
				continue
			}
			var private [64]byte
			valid := r.Begin()
			if valid {
				copy(private[:], block[:])
				valid = r.Valid()
			}
			if valid {
				taken++
			} else {
				lost++
			}
			for i, b := range private {
				if valid && b != byte(m.Port) {
					t.Errorf("byte %d of message %d is %d", i, m.Port, b)
					break
				}
			}
			r.Release()
		}
	}()
	forever := func() time.Duration { return 0 }
	for i := range rounds {
		for j := range block {
			block[j] = byte(i)
		}
		if !s.Refer(&Head{Port: uint16(i)}, nil, Ref{}, len(block)) {
			t.Fatal("no room")
		}
		for range i % 4 {
			runtime.Gosched()
		}
		if i%3 == 0 {
			for s.Referring() {
				runtime.Gosched()
			}
		} else {
			s.Revoke(1, forever)
		}
		for s.Sent()-s.Consumed() > slots/2 {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	<-done
	t.Logf("%d taken, %d lost", taken, lost)
	if taken < rounds/3 {
		t.Errorf("%d messages taken, expected at least those that were not revoked, %d", taken, rounds/3)
	}
}

// A sender that does not wait for a copy changes memory during it. The receiver drops the
// copy.
func TestMemoryThatChangesDuringCopyIsNotTaken(t *testing.T) {
	const rounds = 20000
	s, r := newRing(t)
	var block [64]atomic.Uint32
	var taken, lost int
	done := make(chan struct{})
	go func() {
		defer close(done)
		var m Received
		for n := 0; n < rounds; {
			if ok, fault := r.Next(&m); fault.Reason != reason.None {
				t.Error(fault)
				return
			} else if !ok {
				runtime.Gosched()
				continue
			}
			n++
			if !r.Begin() {
				lost++
				r.Release()
				continue
			}
			var private [len(block)]uint32
			for i := range block {
				private[i] = block[i].Load()
			}
			if !r.Valid() {
				lost++
			} else {
				taken++
				for i, v := range private {
					if uint16(v) != m.Port {
						t.Errorf("word %d of message %d is %d", i, m.Port, v)
						break
					}
				}
			}
			r.Release()
		}
	}()
	for n := range uint32(rounds) {
		for i := range block {
			block[i].Store(n)
		}
		for !s.Refer(&Head{Port: uint16(n)}, nil, Ref{}, len(block)) {
			runtime.Gosched()
		}
		for range n % 5 {
			runtime.Gosched()
		}
		s.Revoke(0, func() time.Duration { return 0 })
	}
	<-done
	t.Logf("%d taken, %d lost", taken, lost)
}
