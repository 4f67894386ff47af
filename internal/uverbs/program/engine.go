//go:build linux

package program

import (
	stdcontext "context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/deferral"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/commands"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/uverbs/uapi"
	"softrdma/verbs"
)

// An Engine serves this process's program.
type Engine struct {
	dev     *verbs.Device
	adapter *adapter.Device
	runtime client.Runtime
	files   *client.Files
	self    *client.Process
	log     func(string) // nil for none
	place   *os.File     // keeps the server's directory, nil for none

	recent atomic.Pointer[target] // of the last direct call
}

// A target is a file of direct calls.
type target struct {
	file uint64
	client.Direct
}

// New makes the engine of a device, which stays open for as long as the program runs. Index is
// the device's among those of the server. The program finds in deferrals, which may be nil, which
// doorbells it may leave out. If log is not nil, it gets a line for each call that is refused, and
// Leave's.
func New(dev *verbs.Device, index int, deferrals []deferral.Place, log func(string)) (*Engine, error) {
	if dev.Daemon() {
		return nil, fmt.Errorf("%s is a daemon's device: %w", dev.Name(), errors.ErrUnsupported)
	}
	e := &Engine{dev: dev, self: client.NewSelf(), log: log}
	e.runtime.Context = stdcontext.Background()
	e.runtime.Refusals.Log = log
	e.files = client.NewFiles(&e.runtime)
	d := device.NewInProgram(dev, index, deferrals)
	e.adapter = d.Adapter
	e.runtime.Refusals.Count = func(x reason.Detail) { d.Adapter.Trace.Refuse(0, x) }
	c := commands.NewDevice(d)
	e.files.Kinds[d.FileName()] = &client.Kind{Rdev: d.DeviceNumber(), Open: c.Open}
	go c.DeliverEvents(e.runtime.Context) // until the device is closed
	return e, nil
}

// Call carries out a request of the preloaded library, with the data behind it. The
// descriptors of the answer belong to the caller.
func (e *Engine) Call(r *uapi.Request, data []byte) (p uapi.Reply, fds []int) {
	e.Flush()
	a := &client.Answer{}
	err := e.call(r, data, a)
	if err != nil {
		e.runtime.Refusals.Call(e.self, "program", r, data, err)
		a.Fail(err, false)
	}
	return a.Reply, a.FDs
}

func (e *Engine) call(r *uapi.Request, data []byte, a *client.Answer) error {
	switch {
	case r.Version != uapi.Protocol:
		return client.Refuse(syscall.EPROTO, reason.ClientProtocol, uapi.Protocol, uint64(r.Version))
	case r.Op == uapi.OpOpen:
		return e.files.Open(e.self, string(data), a)
	}
	f := e.files.Find(r.File)
	switch {
	case r.Op == uapi.OpClose && f == nil:
		return nil // its pipe was seen closed before
	case f == nil:
		return syscall.EIO // the file has ended
	case r.Op == uapi.OpClose:
		return f.CloseBy(e.self)
	}
	return f.Call(e.self, r, data, nil, a)
}

// Doorbell carries out on the caller's thread what the program has posted to a queue pair
// of a file.
func (e *Engine) Doorbell(file uint64, handle uint32) error {
	t := e.target(file)
	if t == nil {
		return syscall.EIO
	}
	return t.Doorbell(handle)
}

// Progress receives on the caller's thread what may complete to a completion queue of a
// file, which the program found empty. With mayYield it may yield the processor after calls without
// success: none of the program's threads spins for a lock that the caller may hold.
func (e *Engine) Progress(file uint64, handle uint32, mayYield bool) error {
	t := e.target(file)
	if t == nil {
		return syscall.EIO
	}
	return t.Progress(handle, mayYield)
}

// Flush sends at once what the program's polls have left to be sent with what it posts next:
// it calls the server now.
func (e *Engine) Flush() { e.adapter.Flush() }

// Poll receives on the caller's thread whatever has arrived: the program waits for an event.
func (e *Engine) Poll() { e.adapter.Poll() }

// Attend leaves receiving to the engine's own thread: the program sleeps until an event.
func (e *Engine) Attend() { e.adapter.Attend() }

func (e *Engine) target(file uint64) *target {
	if t := e.recent.Load(); t != nil && t.file == file {
		return t
	}
	f := e.files.Find(file)
	if f == nil || f.Direct() == nil {
		return nil
	}
	t := &target{file, f.Direct()}
	e.recent.Store(t)
	return t
}

// Leave prepares for the end of the program: what is owed to peers is sent, and what the device has
// counted is logged. The device stays, for threads of the program that still use it, as an adapter
// would until the process has ended.
func (e *Engine) Leave() {
	e.adapter.Settle()
	e.adapter.Attend()
	e.report()
}

// report logs what the device has counted.
func (e *Engine) report() {
	if e.log == nil {
		return
	}
	for line := range device.Report(e.dev, false) {
		e.log(fmt.Sprintf("process %d: %s", os.Getpid(), line))
	}
}
