package wake

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newSleeper(t *testing.T) (*Sleeper, *Lifetime) {
	t.Helper()
	s, life := new(Sleeper), new(Lifetime)
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	life.Init(s.Free)
	t.Cleanup(func() { life.Close(s.Interrupt) })
	return s, life
}

func TestSleepEndsByTime(t *testing.T) {
	s, life := newSleeper(t)
	start := time.Now()
	if ready, err := s.Sleep(life, 2*time.Millisecond); ready != 0 || err != nil {
		t.Errorf("ready %b, error %v", ready, err)
	}
	if d := time.Since(start); d < 2*time.Millisecond {
		t.Errorf("slept %v, expected at least 2ms", d)
	}
}

func TestSetBeforeSleepEndsItAtOnce(t *testing.T) {
	s, life := newSleeper(t)
	if s.Set() {
		t.Error("an interrupt is needed though nobody sleeps")
	}
	if ready, err := s.Sleep(life, -1); ready != 0 || err != nil {
		t.Errorf("ready %b, error %v", ready, err)
	}
	if ready, err := s.Sleep(life, 0); ready != 0 || err != nil {
		t.Errorf("second sleep: ready %b, error %v", ready, err)
	}
}

func TestSetAndInterruptEndASleep(t *testing.T) {
	s, life := newSleeper(t)
	done := make(chan error)
	go func() {
		_, err := s.Sleep(life, -1)
		done <- err
	}()
	for !s.Set() { // until it sleeps; an earlier Set ends it as well
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
	s.Interrupt()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLateInterruptDoesNotEndASleep(t *testing.T) {
	s, life := newSleeper(t)
	s.Interrupt()
	start := time.Now()
	if ready, err := s.Sleep(life, 2*time.Millisecond); ready != 0 || err != nil {
		t.Errorf("ready %b, error %v", ready, err)
	}
	if d := time.Since(start); d < 2*time.Millisecond {
		t.Errorf("slept %v, expected at least 2ms", d)
	}
}

func TestSleepReportsReadableDescriptors(t *testing.T) {
	s, life := newSleeper(t)
	var a, b [2]int
	for _, p := range []*[2]int{&a, &b} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	if _, err := unix.Write(b[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if ready, err := s.Sleep(life, -1, a[0], b[0], -1); ready != 2 || err != nil {
		t.Errorf("ready %b, error %v, expected 10", ready, err)
	}
}

func TestCloseEndsASleepAndFreesBehindIt(t *testing.T) {
	s, life := new(Sleeper), new(Lifetime)
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	freed := make(chan struct{})
	life.Init(func() { s.Free(); close(freed) })
	if !life.Enter() {
		t.Fatal("closed from the beginning")
	}
	left := make(chan struct{})
	go func() {
		_, _ = s.Sleep(life, -1)
		select {
		case <-freed:
			t.Error("freed with a call inside")
		default:
		}
		close(left)
		life.Leave()
	}()
	life.Close(s.Interrupt)
	<-left
	<-freed
	if life.Enter() {
		t.Error("a closed link was entered")
	}
	life.Close(s.Interrupt) // the second one waits for the first
}
