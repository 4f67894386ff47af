package drive

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// coalesce sleeps for moderateTime in the kernel; Go's own timers are of
// milliseconds. A signal may end it early. Go's scheduler is not told: its monitor, which
// would give the processor's place to another goroutine, takes more time than the sleep.
func coalesce() {
	ts := unix.NsecToTimespec(moderateTime.Nanoseconds())
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
