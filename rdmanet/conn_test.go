package rdmanet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// random returns n bytes that depend on the seed.
func random(seed uint64, n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// write writes p in pieces of random sizes up to most bytes.
func write(c net.Conn, p []byte, most int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 3))
	for len(p) > 0 {
		n := min(len(p), 1+r.IntN(most))
		k, err := c.Write(p[:n])
		if err != nil {
			return err
		}
		p = p[k:]
	}
	return nil
}

func TestBothStreamsArriveUnchanged(t *testing.T) {
	for name, o := range map[string]Options{
		"defaults": {}, "smallest": {ReadBuffer: 1, WriteBuffer: 1}, "asleep": {Spin: -1},
		"odd": {ReadBuffer: 12345, WriteBuffer: 54321},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t, o)
			total := 1 << 20
			if testing.Short() {
				total = 1 << 18
			}
			var all sync.WaitGroup
			for i, dir := range []struct{ from, to *Conn }{{a, b}, {b, a}} {
				p := random(uint64(i), total)
				all.Go(func() {
					if err := write(dir.from, p, 1<<(7+7*i), uint64(i)); err != nil {
						t.Error(err)
					}
					if err := dir.from.CloseWrite(); err != nil {
						t.Error(err)
					}
				})
				all.Go(func() {
					got, err := io.ReadAll(dir.to)
					if err != nil || !bytes.Equal(got, p) {
						t.Errorf("%d bytes of %d came, or other ones: %v", len(got), len(p), err)
					}
				})
			}
			all.Wait()
		})
	}
}

// Data written before Close can be read after it.
func TestCloseLosesNothingWritten(t *testing.T) {
	a, b := pair(t, Options{})
	p := random(1, 200_000) // fits into the buffers, because the peer does not read yet
	if _, err := a.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, p) {
		t.Fatalf("%d bytes of %d: %v", len(got), len(p), err)
	}
	if _, err := b.Write(p); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("writing to a closed connection: expected EPIPE, found %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseWriteLeavesTheOtherDirection(t *testing.T) {
	a, b := pair(t, Options{})
	if _, err := a.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("expected EPIPE, found %v", err)
	}
	if got, err := io.ReadAll(b); err != nil || string(got) != "question" {
		t.Fatalf("found %q, %v", got, err)
	}
	if _, err := b.Write(random(1, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || len(got) != 100_000 {
		t.Fatalf("found %d bytes, %v", len(got), err)
	}
}

func TestCloseReadEndsOnlyReading(t *testing.T) {
	a, b := pair(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	time.Sleep(10 * time.Millisecond) // lets the reader wait; without it the test is weaker but correct
	if err := a.CloseRead(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != io.EOF {
		t.Fatalf("the Read that waited: expected EOF, found %v", err)
	}
	if n, err := a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("a Read after it: found %d, %v", n, err)
	}
	if _, err := a.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	if _, err := io.ReadFull(b, p); err != nil || string(p) != "still here" {
		t.Fatalf("found %q, %v", p, err)
	}
}

// When this side closes, all waiting calls return and say why.
func TestCloseEndsWaitingCalls(t *testing.T) {
	a, b := pair(t, Options{})
	fill(t, a)
	var all sync.WaitGroup
	waits := func(name string, f func() error) {
		all.Go(func() {
			if err := f(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: expected net.ErrClosed, found %v", name, err)
			}
		})
	}
	waits("Read", func() error { _, err := a.Read(make([]byte, 1)); return err })
	waits("Read after it", func() error { _, err := a.Read(make([]byte, 1)); return err })
	waits("Write", func() error { _, err := a.Write(make([]byte, 1)); return err })
	waits("ReadFrom", func() error { _, err := a.ReadFrom(bytes.NewReader(make([]byte, 1))); return err })
	time.Sleep(10 * time.Millisecond)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := a.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := a.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDeadline: %v", err)
	}
	io.Copy(io.Discard, b)
}

// fill writes until the peer has received all of it and has no more room.
func fill(t *testing.T, c *Conn) (n int) {
	t.Helper()
	full := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.progress()
		return n > 0 && c.posted == 0 && c.tx.Room() == 0
	}
	for end := soon(); !full(); {
		if time.Now().After(end) {
			t.Fatalf("%d bytes were written, and there is still room or no credit comes", n)
		}
		if err := c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		k, err := c.Write(make([]byte, 10_000))
		n += k
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if err := c.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// A Write that its deadline ends returns how much it wrote.
func TestWriteCountsWhatItWrote(t *testing.T) {
	a, b := pair(t, Options{})
	n := fill(t, a)
	if want := 2 * (DefaultBuffer / 2); n != want {
		t.Errorf("%d bytes were written to a peer that does not read, expected %d", n, want)
	}
	a.CloseWrite()
	got, err := io.Copy(io.Discard, struct{ io.Reader }{b})
	if err != nil || got != int64(n) {
		t.Fatalf("%d bytes written, %d read: %v", n, got, err)
	}
}

// If a program reads and then makes no more calls, its peer can write as much
// again.
func TestPeerContinuesToWriteAfterRead(t *testing.T) {
	a, b := pair(t, Options{})
	for range 5 {
		n := fill(t, a)
		if n == 0 {
			t.Fatal("no room")
		}
		if _, err := io.CopyN(io.Discard, struct{ io.Reader }{b}, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// One side only writes small messages and the other only reads: credits are
// returned.
func TestManySmallWrites(t *testing.T) {
	a, b := pair(t, Options{})
	const n = 70_000 // wraps the credit counter
	var writes sync.WaitGroup
	defer writes.Wait()
	defer a.Close()
	writes.Go(func() {
		for i := range n {
			if _, err := a.Write([]byte{byte(i)}); err != nil {
				t.Error(err)
				break
			}
		}
		a.Close()
	})
	got, err := io.ReadAll(b)
	if err != nil || len(got) != n {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i, x := range got {
		if x != byte(i) {
			t.Fatalf("byte %d is %d", i, x)
		}
	}
}

func TestEmptyReadAndWriteSendNothing(t *testing.T) {
	a, b := pair(t, Options{})
	for range 1000 { // more than the number of credits
		if n, err := a.Write(nil); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := b.Read(nil); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	a.Write([]byte("x"))
	if n, err := b.Read(make([]byte, 10)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	b.Close()
	if _, err := b.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("expected net.ErrClosed, found %v", err)
	}
}

// Connections use no goroutine and leave no objects.
func TestCloseLeavesNothing(t *testing.T) {
	da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
	defer da.Close()
	defer db.Close()
	counts, goroutines := da.Counts(), runtime.NumGoroutine()
	var conns []*Conn
	for range 20 {
		a, wa := half(t, da, Options{})
		b, wb := half(t, db, Options{})
		join(t, a, b, wa, wb)
		a.Write([]byte("hello"))
		if _, err := io.ReadFull(b, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, a, b)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines more for %d connections", n-goroutines, len(conns))
	}
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if c.store.mem.Bytes() != nil {
			t.Error("the memory was not freed")
		}
	}
	if c := da.Counts(); c != counts {
		t.Errorf("objects: expected %+v, found %+v", counts, c)
	}
	if c := db.Counts(); c != counts {
		t.Errorf("objects: expected %+v, found %+v", counts, c)
	}
	spinners.Lock()
	defer spinners.Unlock()
	if spinners.of[da] != nil || spinners.of[db] != nil {
		t.Error("a device is known still")
	}
}

// Reading and writing do not allocate.
func TestReadAndWriteDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, n := range []int{8, 1000, 20_000} {
		a, b := pair(t, Options{})
		p, q := make([]byte, n), make([]byte, n)
		round := func() {
			if _, err := a.Write(p); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, q); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			round()
		}
		if allocs := testing.AllocsPerRun(500, round); allocs >= 1 {
			t.Errorf("%d bytes: %v allocations", n, allocs)
		}
	}
}

func TestBuffersOfAConnectionDoNotGrow(t *testing.T) {
	a, _ := pair(t, Options{ReadBuffer: 1 << 16, WriteBuffer: 1 << 17})
	for name, f := range map[string]func(int) error{"read": a.SetReadBuffer, "write": a.SetWriteBuffer} {
		if err := f(1 << 16); err != nil {
			t.Errorf("existing %s buffer: %v", name, err)
		}
		if err := f(1 << 18); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s buffer that does not exist: %v", name, err)
		}
	}
}

// If four control messages are in flight, credit cannot be sent at once. It is sent
// later although the program makes no call.
func TestDelayedCreditIsSent(t *testing.T) {
	a, b := pair(t, Options{})
	n := fill(t, a)
	b.mu.Lock()
	b.controls += controlSlots
	b.mu.Unlock()
	if _, err := io.CopyN(io.Discard, struct{ io.Reader }{b}, int64(n)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	if !b.rx.Due() {
		t.Error("nothing is due")
	}
	b.controls -= controlSlots
	b.mu.Unlock()
	a.SetWriteDeadline(soon())
	if _, err := a.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}
