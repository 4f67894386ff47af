package drive

import "golang.org/x/sys/unix"

// coalesce sleeps for moderateTime in the kernel; Go's own timers are of
// milliseconds. A signal may end it early.
func coalesce() {
	ts := unix.NsecToTimespec(moderateTime.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil)
}
