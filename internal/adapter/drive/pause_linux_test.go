package drive

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newKernelPauser(t *testing.T) *kernelPauser {
	t.Helper()
	p, ok := newPauser(true).(*kernelPauser)
	if !ok {
		t.Fatal("the kernel gave no timer")
	}
	t.Cleanup(p.close)
	return p
}

// Each wait would last forever, or an hour, if the resume were lost.
func TestResumeEndsThePauseInAnyOrder(t *testing.T) {
	p := newKernelPauser(t)
	p.stop()
	p.resume()
	p.wait()

	p.resume()
	p.reset(time.Hour)
	p.wait()

	p.reset(time.Hour)
	go p.resume()
	p.wait()

	p.reset(time.Nanosecond)
	p.wait()
}

func TestPauserWithoutKernelOrDescriptorsIsGos(t *testing.T) {
	if _, ok := newPauser(false).(*goPauser); !ok {
		t.Error("the kernel's where time may be virtual")
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	p := newPauser(true)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.(*goPauser); !ok {
		t.Error("no pauser of Go's where no descriptor was to be had")
	}
}

// A poller may come late. The descriptor's number may have another user by then.
func TestClosedPauserSetsNobodysTimer(t *testing.T) {
	p := newKernelPauser(t)
	fd := p.fd
	p.close()
	others := newKernelPauser(t)
	if others.fd != fd {
		t.Skipf("descriptor %d was taken by another goroutine", fd)
	}
	p.reset(time.Hour)
	p.resume()
	var set unix.ItimerSpec
	if err := unix.TimerfdGettime(fd, &set); err != nil {
		t.Fatal(err)
	}
	if set.Value != (unix.Timespec{}) {
		t.Errorf("another timer was set to %v", set.Value)
	}
}
