//go:build linux

package program

import (
	stdcontext "context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"softrdma/internal/adapter/deferral"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/commands"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
	"softrdma/verbs"
)

// An Engine serves this process's program.
type Engine struct {
	runtime   client.Runtime
	files     *client.Files
	self      *client.Process
	deferrals []deferral.Place
	log       func(string) // nil if there is none

	devices atomic.Pointer[[]*device.Device]
	recent  [recentFiles]atomic.Pointer[client.File] // of direct calls, by their numbers

	mu    sync.Mutex       // held while a device or a file is opened
	tried map[string]error // what opening the device of a file has led to; nil if it is open
	place *os.File         // keeps the server's directory, nil if there is none
}

// recentFiles is how many files are found without a lock, if their numbers allow it. A program
// that polls several devices has a file of each.
const recentFiles = 8

// New makes an engine without devices. The program finds in deferrals, which may be nil, which
// doorbells it may leave out. If log is not nil, it gets a line for each device and for each
// call that is refused, and Leave's.
func New(deferrals []deferral.Place, log func(string)) *Engine {
	e := &Engine{self: client.NewSelf(), deferrals: deferrals, log: log, tried: make(map[string]error)}
	e.devices.Store(new([]*device.Device))
	e.runtime.Context = stdcontext.Background()
	e.runtime.Refusals.Log = log
	// A refusal is counted by the first device, because it may concern none.
	e.runtime.Refusals.Count = func(x reason.Detail) {
		if all := *e.devices.Load(); len(all) > 0 {
			all[0].Adapter.Trace.Refuse(0, x)
		}
	}
	e.files = client.NewFiles(&e.runtime)
	return e
}

// Add adds a device, which stays open for as long as the program runs. Name and index are those of
// the server's device whose address it shares.
func (e *Engine) Add(dev *verbs.Device, name string, index int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.add(dev, name, index)
}

func (e *Engine) add(dev *verbs.Device, name string, index int) error {
	d := device.NewInProgram(dev, name, index, e.deferrals)
	c := commands.NewDevice(d)
	e.files.Kinds[d.FileName()] = &client.Kind{Rdev: d.DeviceNumber(), Open: c.Open}
	all := append(slices.Clone(*e.devices.Load()), d)
	e.devices.Store(&all)
	go c.DeliverEvents(e.runtime.Context) // until the device is closed
	return nil
}

// Call executes a request of the preloaded library, with the data behind it. The
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
		return e.open(string(data), a)
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
	return f.Call(e.self, r, data, a)
}

// open opens a file of a device that the engine has.
func (e *Engine) open(name string, a *client.Answer) error {
	e.mu.Lock() // Add may be changing the kinds
	defer e.mu.Unlock()
	return e.files.Open(e.self, name, a)
}

// Doorbell executes on the caller's thread what the program has posted to a queue pair
// of a file.
func (e *Engine) Doorbell(file uint64, handle uint32) error {
	d := e.direct(file)
	if d == nil {
		return syscall.EIO
	}
	return d.Doorbell(handle)
}

// Progress receives on the caller's thread what may complete to a completion queue of a
// file, which the program found empty. With mayYield it may yield the processor after calls without
// success: none of the program's threads spins for a lock that the caller may hold.
func (e *Engine) Progress(file uint64, handle uint32, mayYield bool) error {
	d := e.direct(file)
	if d == nil {
		return syscall.EIO
	}
	return d.Progress(handle, mayYield)
}

// Flush sends at once what the program's polls have left to be sent with what it posts next:
// it calls the server now.
func (e *Engine) Flush() {
	for _, d := range *e.devices.Load() {
		d.Adapter.Flush()
	}
}

// Poll receives on the caller's thread whatever has arrived at the device of a file: the program
// waits for an event of it.
func (e *Engine) Poll(file uint64) {
	if d := e.direct(file); d != nil {
		d.Adapter().Poll()
	}
}

// Attend leaves receiving to the own thread of the device of a file: the program sleeps until an
// event of it.
func (e *Engine) Attend(file uint64) {
	if d := e.direct(file); d != nil {
		d.Adapter().Attend()
	}
}

// direct returns what serves a file without messages, nil if the file has ended.
func (e *Engine) direct(file uint64) client.Direct {
	place := &e.recent[file%recentFiles]
	if f := place.Load(); f != nil && f.ID == file {
		return f.Direct()
	}
	f := e.files.Find(file)
	if f == nil {
		return nil
	}
	place.Store(f)
	return f.Direct()
}

// Leave prepares for the end of the program: what is owed to peers is sent, and what the devices have
// counted is logged. The devices stay, for threads of the program that still use them, as an adapter
// would until the process has ended. Ports of fabrics on other hosts are down.
func (e *Engine) Leave() {
	for _, d := range *e.devices.Load() {
		d.Adapter.Sanitizer().Ended()
		d.Adapter.Settle()
		d.Adapter.Trace.Flush()
		if err := d.Verbs.FlushRecords(); err != nil && e.log != nil {
			e.log(fmt.Sprintf("process %d: %s records: %v", os.Getpid(), d.Name, err))
		}
		d.Adapter.Left()
		d.Adapter.Attend()
		if d.Fabric != nil {
			d.Fabric.Leave()
		}
	}
	e.report()
}

// Waits notes that the program is about to read an event of a completion channel of a file, or has taken
// one.
func (e *Engine) Waits(file uint64, took bool) {
	if d := e.direct(file); d != nil {
		s := d.Adapter().Sanitizer()
		if took {
			s.Took()
		} else {
			s.Waits()
		}
	}
}

// Posted notes that the program has posted receives to a queue of a file, or requests.
func (e *Engine) Posted(file uint64, handle uint32, receives bool) {
	if d := e.direct(file); d != nil {
		d.Posted(handle, receives)
	}
}

// report logs what the devices have counted.
func (e *Engine) report() {
	if e.log == nil {
		return
	}
	for _, d := range *e.devices.Load() {
		for line := range device.Report(d.Verbs, false) {
			e.log(fmt.Sprintf("process %d: %s %s", os.Getpid(), d.Name, line))
		}
	}
}
