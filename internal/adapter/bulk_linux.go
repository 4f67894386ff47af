package adapter

import "golang.org/x/sys/unix"

// nap sleeps for bulkNap in the kernel; Go's own timers are of milliseconds.
// A signal may end it early.
func (b *bulk) nap() {
	ts := unix.NsecToTimespec(bulkNap.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil)
}
