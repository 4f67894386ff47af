package hostmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/reason"
)

// newRing returns both ends of a ring.
func newRing(t testing.TB) (*Sender, *Receiver) {
	t.Helper()
	mem := make([]byte, AreaSize(1, 1))
	out := NewArea(mem, 1, 1)
	in, err := OpenArea(mem, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out.Sender(0, 0), in.Receiver(0, 0)
}

// take expects a message.
func take(t testing.TB, r *Receiver) (m Received) {
	t.Helper()
	if ok, fault := r.Next(&m); !ok || fault.Reason != reason.None {
		t.Fatalf("no message: %v", fault)
	}
	return m
}

// empty expects that there is no message.
func empty(t testing.TB, r *Receiver) {
	t.Helper()
	if ok, fault := r.Next(new(Received)); ok || fault.Reason != reason.None {
		t.Fatalf("a message or a fault: %v, %v", ok, fault)
	}
}

// check fails if a receiver must not return a message.
func check(t *testing.T, m *Received) {
	t.Helper()
	limit := InlineMax
	if m.Refers {
		limit = ReferMax
	}
	if len(m.Header) > MaxHeader || m.Len < 0 || m.Len > limit || m.Kind > Packet || !m.Refers && len(m.Payload) != m.Len || m.Refers && m.Payload != nil {
		t.Errorf("a message of %d + %d bytes, payload %d, kind %d", len(m.Header), m.Len, len(m.Payload), m.Kind)
	}
}

// pattern returns n bytes that depend on a seed.
func pattern(seed uint64, n int) []byte {
	b := make([]byte, n+8)
	rng := rand.NewPCG(seed, 0)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b[:n]
}

// split cuts b into pieces.
func split(b []byte, pieces int) (all [][]byte) {
	for i := range pieces {
		all = append(all, b[len(b)*i/pieces:len(b)*(i+1)/pieces])
	}
	return all
}

func TestMessagesKeepEveryField(t *testing.T) {
	s, r := newRing(t)
	heads := []Head{
		{}, {Kind: Packet}, {TrafficClass: 255, HopLimit: 1, Port: 0xc0de, Train: 0xffff},
		{Kind: Packet, TrafficClass: 1, HopLimit: 255, Port: 1, Train: 1},
	}
	for _, h := range heads {
		for _, header := range []int{0, 12, 28, 32, 33, 63, MaxHeader} {
			for _, n := range []int{0, 1, 8, 47, 48, 49, 84, 85, 112, 113, 1024, 4096, InlineMax} {
				headers, payload := pattern(1, header), pattern(2, n)
				if !s.Copy(&h, headers, split(payload, 1+n%5), n) {
					t.Fatalf("no room in an empty ring for %d + %d bytes", header, n)
				}
				m := take(t, r)
				if m.Head != h || m.Refers || m.Len != n || !bytes.Equal(m.Header, headers) || !bytes.Equal(m.Payload, payload) {
					t.Errorf("%+v with %d + %d bytes arrived as %+v, %d bytes", h, header, n, m.Head, m.Len)
				}
				r.Release()

				ref := Ref{Segment: uint32(n) << 16, Offset: 1<<64 - 1 - uint64(n)}
				if !s.Refer(&h, headers, ref, n) {
					t.Fatal("no room in an empty ring for a reference")
				}
				m = take(t, r)
				if m.Head != h || !m.Refers || m.Ref != ref || m.Payload != nil || m.Len != n || !bytes.Equal(m.Header, headers) {
					t.Errorf("%+v with %d bytes and %+v arrived as %+v, %d bytes, %+v", h, header, ref, m.Head, m.Len, m.Ref)
				}
				r.Release()
				empty(t, r)
			}
		}
	}
}

func TestSmallWriteFitsOneLine(t *testing.T) {
	if used := nearAt + 12 + 16 + 8; used > 64 {
		t.Errorf("a slot of %d bytes for BTH, RETH and 8 bytes of payload, expected at most 64", used)
	}
	if used := farAt + 12 + 16; used > 64 {
		t.Errorf("a slot of %d bytes for BTH, RETH and a reference, expected at most 64", used)
	}
}

func TestRingOfEveryPairOfLanesIsItsOwn(t *testing.T) {
	const from, to = 3, 2
	mem := make([]byte, AreaSize(from, to))
	out := NewArea(mem, from, to)
	in, err := OpenArea(mem, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for f := range from {
		for l := range to {
			if !out.Sender(f, l).Copy(&Head{Port: uint16(f)<<8 | uint16(l)}, nil, [][]byte{pattern(0, InlineMax)}, InlineMax) {
				t.Fatal("no room")
			}
		}
	}
	for f := range from {
		for l := range to {
			r := in.Receiver(f, l)
			if m := take(t, r); m.Port != uint16(f)<<8|uint16(l) || !bytes.Equal(m.Payload, pattern(0, InlineMax)) {
				t.Errorf("ring %d, %d holds the message of ring %d, %d", f, l, m.Port>>8, m.Port&255)
			}
			r.Release()
			empty(t, r)
		}
	}
}

func TestAreaOfAnotherGeometryIsRefused(t *testing.T) {
	mem := make([]byte, AreaSize(2, 2))
	NewArea(mem, 2, 2)
	for what, open := range map[string]func() (*Area, error){
		"other lanes":   func() (*Area, error) { return OpenArea(mem, 4, 1) },
		"short":         func() (*Area, error) { return OpenArea(mem[:len(mem)-8], 2, 2) },
		"long":          func() (*Area, error) { return OpenArea(append(mem[:len(mem):len(mem)], 0), 2, 2) },
		"no lanes":      func() (*Area, error) { return OpenArea(mem, 0, 2) },
		"many lanes":    func() (*Area, error) { return OpenArea(mem, 1<<30, 4) },
		"empty":         func() (*Area, error) { return OpenArea(nil, 1, 1) },
		"other magic":   func() (*Area, error) { m := bytes.Clone(mem); m[0]++; return OpenArea(m, 2, 2) },
		"other version": func() (*Area, error) { m := bytes.Clone(mem); m[8]++; return OpenArea(m, 2, 2) },
		"other slots":   func() (*Area, error) { m := bytes.Clone(mem); m[17]++; return OpenArea(m, 2, 2) },
	} {
		_, err := open()
		var e *reason.Error
		if !errors.As(err, &e) || e.Detail.Reason != reason.HostArea {
			t.Errorf("%s: %v, expected %v", what, err, reason.HostArea)
		}
	}
}

func TestFullRingRefusesUntilReleased(t *testing.T) {
	for _, n := range []int{8, 2000, InlineMax} {
		s, r := newRing(t)
		send := func() bool { return s.Copy(&Head{}, nil, [][]byte{pattern(s.Sent(), n)}, n) }
		for send() {
			if s.Sent() > slots {
				t.Fatalf("%d messages of %d bytes fit", s.Sent(), n)
			}
		}
		if s.Room(1, n) {
			t.Errorf("room for %d bytes, though Copy found none", n)
		}
		full := s.Sent()
		if expected := uint64(min(slots, arenaSize/max((n+63)&^63, 1))); full != expected {
			t.Errorf("%d messages of %d bytes fit, expected %d", full, n, expected)
		}
		for i := range 3 * full { // release one, send one
			m := take(t, r)
			if !bytes.Equal(m.Payload, pattern(i, n)) {
				t.Fatalf("message %d has another payload", i)
			}
			if s.Consumed() != i {
				t.Errorf("%d messages consumed, expected %d", s.Consumed(), i)
			}
			r.Release()
			if !s.Room(1, n) || !send() || send() {
				t.Fatalf("expected room for one message after message %d of %d bytes", i, n)
			}
		}
	}
}

// The receiver must not see the first of several messages before all are complete.
func TestMessagesOfABatchAppearTogether(t *testing.T) {
	for _, end := range []func(*Sender){(*Sender).End, func(s *Sender) { s.Armed() }} {
		for _, n := range []int{1, 2, maxBatch - 1} {
			s, r := newRing(t)
			for i := range n {
				m := pattern(uint64(i), slotSize-nearAt-i)
				copy(s.Slot(len(m)), m)
				s.Append(&Head{Port: uint16(i)}, 40, len(m)-40)
			}
			if empty(t, r); s.Sent() != uint64(n) {
				t.Errorf("sent %d messages, expected %d", s.Sent(), n)
			}
			end(s)
			for i := range n {
				want, got := pattern(uint64(i), slotSize-nearAt-i), take(t, r)
				if got.Port != uint16(i) || !bytes.Equal(got.Header, want[:40]) || !bytes.Equal(got.Payload, want[40:]) {
					t.Errorf("message %d of %d: found %+v", i, n, got)
				}
				r.Release()
			}
			empty(t, r)
		}
	}
}

// References are part of a batch like other messages.
func TestReferencesOfABatchAppearTogether(t *testing.T) {
	for _, n := range []int{1, 2, maxBatch - 1} {
		s, r := newRing(t)
		for i := range n {
			if !s.AppendRef(&Head{Port: uint16(i)}, pattern(uint64(i), MaxHeader-i), Ref{uint32(i), 7}, 4096+i) {
				t.Fatal("no room")
			}
		}
		if empty(t, r); s.Sent() != uint64(n) || !s.Referring() {
			t.Errorf("sent %d messages, expected %d with references", s.Sent(), n)
		}
		s.End()
		for i := range n {
			want, got := pattern(uint64(i), MaxHeader-i), take(t, r)
			if got.Port != uint16(i) || !bytes.Equal(got.Header, want) || !got.Refers || got.Ref != (Ref{uint32(i), 7}) || got.Len != 4096+i {
				t.Errorf("message %d of %d: found %+v", i, n, got)
			}
			r.Release()
		}
		empty(t, r)
	}
}

func TestLongBatchIsPublishedInParts(t *testing.T) {
	s, r := newRing(t)
	for range maxBatch {
		s.Slot(1)[0] = 1
		s.Append(&Head{}, 1, 0)
	}
	for range maxBatch {
		take(t, r)
		r.Release()
	}
}

func TestReferencesFillSlotsOnly(t *testing.T) {
	s, r := newRing(t)
	for s.Refer(&Head{}, nil, Ref{}, ReferMax) {
	}
	if s.Sent() != slots {
		t.Errorf("%d references fit, expected %d", s.Sent(), slots)
	}
	take(t, r)
	r.Release()
	if !s.Refer(&Head{}, nil, Ref{}, 1) {
		t.Error("no room after a release")
	}
}

func TestArmedRingsOnceForEachSleep(t *testing.T) {
	s, r := newRing(t)
	send := func() { s.Copy(&Head{}, nil, nil, 0) }
	send()
	if s.Armed() {
		t.Error("rings though nobody sleeps")
	}
	if r.Arm() {
		t.Error("armed though there is a message")
	}
	take(t, r)
	r.Release()
	send()
	if s.Armed() {
		t.Error("rings after an Arm that found a message")
	}
	take(t, r)
	r.Release()
	if !r.Arm() {
		t.Fatal("not armed though there is no message")
	}
	if s.Armed() {
		t.Error("rings without a message")
	}
	send()
	send()
	send()
	if !s.Armed() {
		t.Error("does not ring for messages published after Arm")
	}
	send()
	if s.Armed() {
		t.Error("rings twice for one sleep")
	}
	for range 4 {
		take(t, r)
		r.Release()
	}
	r.Arm()
	r.Disarm()
	send()
	if s.Armed() {
		t.Error("rings after Disarm")
	}
	take(t, r)
	r.Release()
	r.Arm()
	for i := range 3 { // one goroutine takes messages while another sleeps
		send()
		if !s.Armed() {
			t.Errorf("does not ring for message %d of a sleep", i)
		}
		take(t, r)
		r.Release()
	}
	send()
	s.Armed()
	if r.Arm() {
		t.Error("armed again though there is a message")
	}
	take(t, r)
	r.Release()
	send()
	if !s.Armed() {
		t.Error("an Arm that found a message ended an earlier one")
	}
	take(t, r)
	r.Release()
	r.Disarm()
	r.Arm() // again for the same message
	send()
	if !s.Armed() {
		t.Error("does not ring for the second Arm")
	}
}

func TestReleaseRingsForWaitingSender(t *testing.T) {
	s, r := newRing(t)
	if s.AwaitRoom() {
		t.Error("waits for room in an empty ring")
	}
	for s.Copy(&Head{}, nil, nil, 0) {
	}
	if !s.AwaitRoom() {
		t.Fatal("finds room in a full ring")
	}
	rings := 0
	for i := range slots {
		take(t, r)
		if r.Release() {
			rings++
			if i+1 != slots/2 {
				t.Errorf("rings after %d messages, expected %d", i+1, slots/2)
			}
		}
	}
	if rings != 1 {
		t.Errorf("rings %d times, expected once", rings)
	}
	if s.AwaitRoom() {
		t.Error("waits though all was released")
	}
}

func TestRevokedReferencesAreLost(t *testing.T) {
	s, r := newRing(t)
	clock := func() time.Duration { return 0 }
	if s.Referring() || !s.Revoke(0, clock) {
		t.Error("references in a ring without any")
	}
	s.Refer(&Head{}, nil, Ref{}, 100)
	s.Copy(&Head{}, nil, nil, 0)
	s.Refer(&Head{}, nil, Ref{}, 100)
	if !s.Referring() {
		t.Error("no reference found")
	}
	take(t, r)
	if !r.Begin() || !r.Valid() {
		t.Error("a reference that was not revoked is not usable")
	}
	r.Release()
	take(t, r)
	r.Release()
	if !s.Referring() {
		t.Error("the last reference is not found")
	}
	if !s.Revoke(0, clock) {
		t.Error("waits though nothing is copied")
	}
	if s.Referring() {
		t.Error("references are left after Revoke")
	}
	s.Refer(&Head{}, nil, Ref{}, 100)
	take(t, r)
	if r.Begin() {
		t.Error("a revoked reference is usable")
	}
	r.Release()
	take(t, r)
	if !r.Begin() {
		t.Error("a reference published after Revoke is not usable")
	}
	r.Release()
	if s.Referring() {
		t.Error("references left in an empty ring")
	}
}

func TestRevokeWaitsForCopy(t *testing.T) {
	s, r := newRing(t)
	s.Refer(&Head{}, nil, Ref{}, 100)
	take(t, r)
	r.Begin()
	now := time.Duration(0)
	if s.Revoke(10, func() time.Duration { now++; return now }) {
		t.Error("did not wait for the copy")
	}
	if now < 10 || now > 12 {
		t.Errorf("gave up after %d, expected 10", now)
	}
	s.Refer(&Head{}, nil, Ref{}, 100)
	if now = 0; s.Revoke(10, func() time.Duration { now++; return now }) || now > 2 {
		t.Errorf("waited for %d more for the same copy", now)
	}
	if r.Valid() {
		t.Error("payload is valid though it was revoked while it was copied")
	}
	if !s.Revoke(10, func() time.Duration { return 0 }) {
		t.Error("waits for a copy that has ended")
	}
}
