package rdmanet

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// ReadFrom and WriteTo copy from file to file at the same time.
func TestCopyUsesTheRegisteredMemory(t *testing.T) {
	a, b := pair(t, Options{})
	p := random(9, 5<<20)
	var writes sync.WaitGroup
	defer writes.Wait()
	defer a.Close()
	writes.Go(func() {
		if n, err := io.Copy(a, struct{ io.Reader }{bytes.NewReader(p)}); n != int64(len(p)) || err != nil {
			t.Error(n, err)
		}
		a.Close()
	})
	h := sha256.New()
	if n, err := io.Copy(h, b); n != int64(len(p)) || err != nil {
		t.Fatal(n, err)
	}
	if want := sha256.Sum256(p); !bytes.Equal(h.Sum(nil), want[:]) {
		t.Fatal("other bytes came")
	}
}

// Write continues while ReadFrom waits for its reader, and both streams arrive.
func TestWriteWhileReadFromWaits(t *testing.T) {
	a, b := pair(t, Options{WriteBuffer: 1 << 16})
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := a.ReadFrom(r)
		done <- err
	}()
	var want, got []byte
	for i := range 100 {
		for _, x := range []io.Writer{w, a} {
			p := random(uint64(i), 3000)
			if _, err := x.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			p = make([]byte, len(p))
			if _, err := io.ReadFull(b, p); err != nil {
				t.Fatal(err)
			}
			got = append(got, p...)
		}
	}
	w.Close()
	if err := <-done; err != nil || !bytes.Equal(got, want) {
		t.Fatal("other bytes came, or", err)
	}
}

// The memory that readers and writers received remains valid after Close.
func TestCloseKeepsMemoryOfForeignCalls(t *testing.T) {
	a, b := pair(t, Options{})
	b.Write([]byte("something to write"))
	r, w := &gate{make(chan []byte), make(chan bool)}, &gate{make(chan []byte), make(chan bool)}
	done := make(chan error, 2)
	go func() { _, err := a.ReadFrom(r); done <- err }()
	go func() { _, err := a.WriteTo(w); done <- err }()
	from, to := <-r.in, <-w.in
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	clear(from) // would fault if it were unmapped
	if string(to) != "something to write" {
		t.Fatalf("found %q", to)
	}
	r.out <- true
	w.out <- true
	for range 2 {
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("expected net.ErrClosed, found %v", err)
		}
	}
	if a.store.mem.Bytes() != nil {
		t.Error("the memory was not freed")
	}
}

// A gate passes on the memory that it is called with and returns when told to.
type gate struct {
	in  chan []byte
	out chan bool
}

func (g *gate) Read(p []byte) (int, error)  { g.in <- p; <-g.out; return len(p), nil }
func (g *gate) Write(p []byte) (int, error) { g.in <- p; <-g.out; return len(p), nil }

func TestReaderAndWriterThatMiscount(t *testing.T) {
	a, b := pair(t, Options{})
	for _, n := range []int{-1, 1 << 30} {
		if _, err := a.ReadFrom(miscount(n)); err == nil {
			t.Errorf("a Reader that returns %d: no error", n)
		}
		b.Write([]byte("x"))
		if _, err := a.WriteTo(miscount(n)); err == nil {
			t.Errorf("a Writer that returns %d: no error", n)
		}
	}
	b.Write([]byte("y"))
	a.Write([]byte("z"))
	p := make([]byte, 3)
	if _, err := io.ReadFull(a, p); err != nil || string(p) != "xxy" {
		t.Errorf("found %q, %v", p, err)
	}
	if n, err := b.Read(p); n != 1 || err != nil {
		t.Error(n, err)
	}
}

type miscount int

func (m miscount) Read([]byte) (int, error)  { return int(m), nil }
func (m miscount) Write([]byte) (int, error) { return int(m), nil }
