package hostmem

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// newBell makes a bell and its ringer.
func newBell(t *testing.T, b *Bells, owner any, other bool) (*Bell, *Ringer) {
	t.Helper()
	x, err := b.Add(owner)
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	if other {
		fd, err = x.ForOther()
	} else {
		fd, err = unix.Dup(x.FD())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRinger(fd, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return x, r
}

// readable reports whether a wait for the bells would return.
func readable(t *testing.T, b *Bells) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 0)
	for err == unix.EINTR { // by a signal of Go's scheduler
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// rung returns the owners that Rung reports.
func rung(b *Bells) map[any]int {
	owners := map[any]int{}
	b.Rung(func(owner any) { owners[owner]++ })
	return owners
}

func TestBellsReportTheirOwners(t *testing.T) {
	for _, other := range []bool{false, true} {
		b, err := NewBells()
		if err != nil {
			t.Fatal(err)
		}
		_, first := newBell(t, b, "first", other)
		_, second := newBell(t, b, "second", other)
		for i := range 1000 { // longer than any queue
			if readable(t, b) || len(rung(b)) != 0 {
				t.Fatalf("a bell rings by itself, ring %d", i)
			}
			first.Ring()
			if !readable(t, b) {
				t.Fatalf("ring %d wakes nobody", i)
			}
			if got := rung(b); len(got) != 1 || got["first"] != 1 {
				t.Fatalf("ring %d was reported as %v", i, got)
			}
		}
		for range 1000 {
			first.Ring()
			second.Ring()
		}
		if got := rung(b); got["first"] != 1 || got["second"] != 1 {
			t.Errorf("two bells were reported as %v", got)
		}
		if readable(t, b) {
			t.Error("readable after Rung")
		}
		first.Ring()
		if !readable(t, b) {
			t.Error("does not ring after many rings")
		}
		b.Close()
	}
}

func TestClosedBellIsSilent(t *testing.T) {
	for _, other := range []bool{false, true} {
		b, err := NewBells()
		if err != nil {
			t.Fatal(err)
		}
		x, r := newBell(t, b, 1, other)
		r.Ring()
		x.Close()
		x.Close()
		r.Ring()
		if readable(t, b) || len(rung(b)) != 0 {
			t.Error("a closed bell rings")
		}
		b.Close()
		b.Close()
		x.Close()
		if _, err := b.Add(2); err == nil {
			t.Error("added a bell to closed bells")
		}
	}
}

// A peer can change the flags and the count of an eventfd that it shares.
func TestBellsDoNotWaitForHostilePeer(t *testing.T) {
	b, err := NewBells()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x, r := newBell(t, b, 1, false)
	if _, err := unix.FcntlInt(uintptr(x.FD()), unix.F_SETFL, 0); err != nil {
		t.Fatal(err)
	}
	r.Ring()
	var count [8]byte
	if _, err := unix.Read(x.FD(), count[:]); err != nil {
		t.Fatal(err)
	}
	if got := rung(b); len(got) > 1 {
		t.Errorf("reported %v", got)
	}
}

func TestRingerDoesNotWaitForOtherUser(t *testing.T) {
	b, err := NewBells()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, r := newBell(t, b, 1, true)
	if _, err := unix.FcntlInt(uintptr(r.fd), unix.F_SETFL, 0); err != nil {
		t.Fatal(err)
	}
	for range 100000 { // without draining
		r.Ring()
	}
	if got := rung(b); got[1] != 1 {
		t.Errorf("reported %v", got)
	}
}

func TestRingerRefusesOtherDescriptorsOfOtherUser(t *testing.T) {
	var fds []int
	add := func(fd int, err error) {
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	add(unix.Eventfd(0, 0))
	add(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))
	add(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	add(unix.Open(os.DevNull, unix.O_RDWR, 0))
	for i, fd := range fds {
		if _, err := OpenRinger(fd, true); err == nil {
			t.Errorf("descriptor %d was accepted", i)
		}
		if unix.Close(fd) == nil {
			t.Errorf("descriptor %d was left open", i)
		}
	}
}
