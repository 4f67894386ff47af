// Package wakeup tells a program that sleeps that something has happened.
package wakeup

import (
	"errors"
	"os"
	"runtime"
)

// An Alarm is a channel and a file descriptor that become ready. The caller serializes the calls.
type Alarm struct {
	ready    chan struct{}
	pipe     [2]*os.File
	signaled bool // pipe has a byte
}

// New returns an alarm that is not ready.
func New() *Alarm { return &Alarm{ready: make(chan struct{}, 1)} }

// Channel returns the channel.
func (a *Alarm) Channel() <-chan struct{} { return a.ready }

// Descriptor returns the descriptor, which Close closes. On Windows the error matches
// errors.ErrUnsupported.
func (a *Alarm) Descriptor() (uintptr, error) {
	if runtime.GOOS == "windows" {
		return 0, errors.ErrUnsupported
	}
	if a.pipe[0] == nil {
		in, out, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		a.pipe = [2]*os.File{in, out}
	}
	return a.pipe[0].Fd(), nil
}

// Signal makes both ready.
func (a *Alarm) Signal() {
	Token(a.ready)
	if a.pipe[1] != nil && !a.signaled {
		a.signaled = true
		_, _ = a.pipe[1].Write([]byte{0}) // at most one byte waits, so it does not block
	}
}

// Reset makes both not ready.
func (a *Alarm) Reset() {
	select {
	case <-a.ready:
	default:
	}
	if a.signaled {
		a.signaled = false
		var b [1]byte
		_, _ = a.pipe[0].Read(b[:]) // Signal wrote one byte
	}
}

// Close closes the descriptor.
func (a *Alarm) Close() {
	for _, f := range a.pipe {
		if f != nil {
			_ = f.Close() // holds no data of the program
		}
	}
}

// Token puts a value into a channel that has room for one.
func Token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
