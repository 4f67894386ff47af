package fabric

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// pair returns a connected link and the fabric's end.
func pair(t testing.TB) (*Link, *End, *hostmem.Bells) {
	t.Helper()
	return pairWith(t, NoHeaders)
}

func pairWith(t testing.TB, h Headers) (*Link, *End, *hostmem.Bells) {
	t.Helper()
	far, err := NewEnd(h)
	if err != nil {
		t.Fatal(err)
	}
	near, err := OpenEnd(far.FD(), h)
	if err != nil {
		t.Fatal(err)
	}
	bells, err := hostmem.NewBells()
	if err != nil {
		t.Fatal(err)
	}
	bell, err := bells.Add(nil)
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
	l, err := New(func(reason.Detail) {})
	if err != nil {
		t.Fatal(err)
	}
	l.Connect(near, ringer)
	t.Cleanup(func() {
		_ = l.Close()
		bells.Close()
		_ = far.Close()
	})
	return l, far, bells
}

// packet returns bytes of a service level.
func packet(sl uint8, n int) []byte {
	b := bytes.Repeat([]byte{0xa5}, n)
	b[1] = sl << 4
	return b
}

func TestBatchesReachTheFabric(t *testing.T) {
	l, far, _ := pair(t)
	for sl := range uint8(Levels) {
		p := bytes.Join([][]byte{packet(sl, 64), packet(sl, 64), packet(sl, 20)}, nil)
		if err := l.Send(&link.Tx{Pieces: [][]byte{p[:10], p[10:]}, Bytes: len(p), Size: 64}); err != nil {
			t.Fatal(err)
		}
		var b Batch
		if ok, fault := far.Next(sl, &b); !ok || b.Size != 64 || !bytes.Equal(b.Data, p) {
			t.Fatalf("service level %d: %v, %v, %d bytes of %d", sl, ok, fault, len(b.Data), b.Size)
		}
		far.Release(sl)
	}
}

func TestPacketsArriveOneByOneOfEachServiceLevelInTurn(t *testing.T) {
	l, far, _ := pair(t)
	for range 3 {
		for _, sl := range []uint8{2, 9} {
			if !far.PutOne(sl, packet(sl, 100)) {
				t.Fatal("no room")
			}
		}
	}
	var rx link.Rx
	var levels []uint8
	for range 6 {
		if ok, err := l.Receive(&rx); !ok || err != nil || len(rx.Data) != 100 || rx.Size != 100 {
			t.Fatal(ok, err, len(rx.Data))
		}
		levels = append(levels, rx.Data[1]>>4)
	}
	if !bytes.Equal(levels, []uint8{2, 9, 2, 9, 2, 9}) {
		t.Errorf("service levels %v", levels)
	}
	if ok, _ := l.Receive(&rx); ok {
		t.Error("received more than was sent")
	}
}

// A link without room waits until the fabric has made some, and loses nothing.
func TestRoom(t *testing.T) {
	l, far, _ := pair(t)
	bell, err := l.NewBell()
	if err != nil {
		t.Fatal(err)
	}
	p := packet(3, 4000)
	sent := 0
	for l.Room(3) {
		if err := l.Send(&link.Tx{Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)}); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if !l.Room(4) {
		t.Error("a full service level took the room of another")
	}
	fd, err := unix.Dup(bell.FD())
	if err != nil {
		t.Fatal(err)
	}
	ringer, err := hostmem.OpenRinger(fd, false)
	if err != nil {
		t.Fatal(err)
	}
	defer ringer.Close()
	var releases sync.WaitGroup
	defer releases.Wait() // before the memory of both ends is unmapped
	releases.Go(func() {
		var b Batch
		for range sent {
			if ok, fault := far.Next(3, &b); !ok {
				t.Error(fault)
			}
			if far.Release(3) {
				ringer.Ring()
			}
		}
	})
	for end := time.Now().Add(20 * time.Second); !l.Room(3); {
		if time.Now().After(end) {
			t.Fatal("no room")
		}
		if err := l.Wait(20 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALinkWithoutAFabric(t *testing.T) {
	l, _, _ := pair(t)
	l.Disconnect()
	p := packet(0, 64)
	err := l.Send(&link.Tx{Pieces: [][]byte{p}, Bytes: 64, Size: 64})
	var named *reason.Error
	if !errors.As(err, &named) || named.Detail.Reason != reason.FabricGone {
		t.Errorf("%v", err)
	}
	if ok, err := l.Receive(&link.Rx{}); ok || err != nil {
		t.Error(ok, err)
	}
	if !l.Room(0) {
		t.Error("tasks would wait for a fabric that has ended")
	}
	l.Wake()
	if err := l.Wait(-1); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(-1); err != link.ErrClosed {
		t.Error(err)
	}
}

// FuzzRings lets the other side write anything into the rings.
func FuzzRings(f *testing.F) {
	f.Add(uint32(4096+4096), []byte{1, 0, 0, 0, 2, 0, 0, 0, 64, 0, 0, 0}, uint8(0))
	f.Add(uint32(4096), []byte{1}, uint8(1))
	f.Fuzz(func(t *testing.T, at uint32, b []byte, sl uint8) {
		fuzzDatagramRings(t, at, b, sl%Levels)
		l, far, _ := pair(t)
		sl %= Levels
		far.PutOne(sl, packet(sl, 200))
		mem := far.memory.Bytes()
		copy(mem[int(at)%len(mem):], b)
		var rx link.Rx
		for range 3 {
			if _, err := l.Receive(&rx); err != nil {
				t.Fatal(err)
			}
		}
		p := packet(sl, 300)
		if l.Room(sl) {
			_ = l.Send(&link.Tx{Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
		}
		var x Batch
		for level := range uint8(Levels) {
			if ok, _ := far.Next(level, &x); ok {
				if x.Size <= 0 || x.Size > maxFrame || len(x.Data) == 0 {
					t.Fatalf("batch of %d bytes in packets of %d", len(x.Data), x.Size)
				}
				far.Release(level)
			}
		}
	})
}
