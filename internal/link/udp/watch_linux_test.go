//go:build linux && !softrdma_portable

package udp

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
)

// A peer's bell ends the wait of a link that watches the lane's bells.
func TestWaitEndsByBell(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	bells, err := hostmem.NewBells()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		bells.Close()
	})
	a.Watch(bells.FD())
	bell, err := bells.Add("peer")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- a.Wait(-1) }()
	ring(t, bell)
	if err := <-done; err != nil {
		t.Error(err)
	}
	rung := 0
	bells.Rung(func(owner any) { rung++ })
	if rung != 1 {
		t.Errorf("%d bells rang, expected 1", rung)
	}
	start := time.Now()
	if err := a.Wait(2 * time.Millisecond); err != nil || time.Since(start) < 2*time.Millisecond {
		t.Errorf("waited %v: %v, expected 2ms", time.Since(start), err)
	}
}

// ring rings a bell as a peer does.
func ring(t *testing.T, b *hostmem.Bell) {
	t.Helper()
	fd, err := unix.Dup(b.FD())
	if err != nil {
		t.Fatal(err)
	}
	r, err := hostmem.OpenRinger(fd, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Ring()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
