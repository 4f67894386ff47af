//go:build linux

package client

import (
	"errors"
	"syscall"

	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// An Answer is the reply to a call while it is made, with the descriptors that go
// with it, which are closed after it was sent.
type Answer struct {
	uapi.Reply
	FDs  []int
	Text []byte // a text behind the reply

	// Sender sends the answer of a call that is still being executed. It is nil
	// if that is not possible.
	Sender Sender
	Sent   bool
}

// A Sender sends answers on a connection.
type Sender interface{ Send(a *Answer) bool }

// SendEarly sends the answer while the call is still being executed. Nothing that
// follows may change it.
func (a *Answer) SendEarly() {
	if a.Sender != nil {
		a.Sent = a.Sender.Send(a)
	}
}

// Attach adds a descriptor. The library stores its number at addr, or returns it
// where addr is 0.
func (a *Answer) Attach(fd int, addr uint64, width uint32, kind uint32) {
	if addr != 0 {
		a.Place[len(a.FDs)] = uapi.Place{Addr: addr, Width: width, Flags: syscall.O_CLOEXEC, Kind: kind}
		a.Places = uint32(len(a.FDs)) + 1
	}
	a.FDs = append(a.FDs, fd)
}

func (a *Answer) Close() {
	for _, fd := range a.FDs {
		_ = syscall.Close(fd)
	}
}

// Fail turns an error into the negative number of a system call. If text is set
// it adds the error's text and its named reason.
func (a *Answer) Fail(err error, text bool) {
	a.Close()
	*a = Answer{}
	a.Result = -int64(Errno(err))
	if text {
		s := err.Error()
		a.Text = []byte(s[:min(len(s), uapi.MaxText)])
		d := detailOf(err)
		a.File, a.Rdev, a.Offset = uint64(d.Reason), d.Expected, d.Found
	}
}

// detailOf returns the named reason of an error, the zero value if it has none.
func detailOf(err error) reason.Detail {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Detail
	}
	var named *reason.Error
	if errors.As(err, &named) {
		return named.Detail
	}
	return reason.Detail{}
}
