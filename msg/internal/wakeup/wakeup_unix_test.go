//go:build unix

package wakeup

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The descriptor is ready as long as the channel is, and however often Signal is called it never blocks.
func TestDescriptorFollowsSignals(t *testing.T) {
	a := New()
	a.Signal() // before there is one
	a.Reset()
	fd, err := a.Descriptor()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Descriptor(); again != fd || err != nil {
		t.Errorf("a second descriptor %d, %v, expected %d", again, err, fd)
	}
	waiting := func() bool {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for range 3 {
		for range 100_000 { // more than a pipe holds
			a.Signal()
		}
		if !waiting() {
			t.Error("not readable after Signal")
		}
		a.Reset()
		a.Reset()
		if waiting() {
			t.Error("readable after Reset")
		}
	}
	in := a.pipe[0]
	a.Close()
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after Close: %v, expected %v", err, os.ErrClosed)
	}
}
