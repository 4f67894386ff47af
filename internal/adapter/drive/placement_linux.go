package drive

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield yields the processor to another thread: the one that holds the lane, or the
// peer's if both poll on the same processor. It calls Go's scheduler only if Go runs one
// goroutine at a time. Otherwise other goroutines have threads of their own, and the
// scheduler costs a poller microseconds. A poller that keeps losing its processor moves.
func (d *Driver) yield() {
	if d.single {
		runtime.Gosched()
	}
	before := d.clock()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	now := d.clock()
	if thread := unix.Gettid(); d.placement.yielded(thread, now-before, now) {
		leaveProcessor(thread)
	}
}

// leaveProcessor moves the thread to another of its processors, by forbidding it the
// present one for a moment. A thread that may run on only one stays.
func leaveProcessor(thread int) {
	var own, others unix.CPUSet
	if unix.SchedGetaffinity(thread, &own) != nil {
		return
	}
	here, err := processor()
	if err != nil {
		return
	}
	others = own
	others.Clear(here)
	if others.Count() == 0 || unix.SchedSetaffinity(thread, &others) != nil {
		return
	}
	_ = unix.SchedSetaffinity(thread, &own) // it was allowed these just now
}

// processor returns the one that the caller runs on.
func processor() (int, error) {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0, errno
	}
	return int(cpu), nil
}
