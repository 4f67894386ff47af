package drive

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// holdThread keeps the test on its thread, and gives the processors that it may
// run on, as it may at the end.
func holdThread(t *testing.T) (thread int, all unix.CPUSet) {
	t.Helper()
	runtime.LockOSThread()
	thread = unix.Gettid()
	if err := unix.SchedGetaffinity(thread, &all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(thread, &all); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	return thread, all
}

func TestLeavingAProcessorKeepsTheThreadsOwn(t *testing.T) {
	thread, all := holdThread(t)
	expect := func(own unix.CPUSet) {
		t.Helper()
		for range 100 {
			leaveProcessor(thread)
		}
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(thread, &now); err != nil {
			t.Fatal(err)
		}
		if now != own {
			t.Errorf("the thread may run on %d processors, expected its %d", now.Count(), own.Count())
		}
	}
	expect(all)

	var one unix.CPUSet
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(thread, &one); err != nil {
		t.Fatal(err)
	}
	expect(one)
}

func TestLeavingAProcessorMoves(t *testing.T) {
	thread, all := holdThread(t)
	if all.Count() < 2 {
		t.Skip("one processor")
	}
	here, err := processor()
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		leaveProcessor(thread)
		if now, err := processor(); err != nil {
			t.Fatal(err)
		} else if now != here {
			return
		}
	}
	t.Errorf("still on processor %d after 1000 moves", here)
}
