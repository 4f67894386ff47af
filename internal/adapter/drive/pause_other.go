//go:build !linux

package drive

// newPauser returns a pauser on Go's timers: others are not to be had.
func newPauser(bool) pauser { return newGoPauser() }
