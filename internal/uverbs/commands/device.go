//go:build linux

package commands

import (
	stdcontext "context"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/provider/local"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// A Device is a device whose commands programs write to its file.
type Device struct {
	*device.Device
	provider provider

	// PortChanged is called before programs are told of an event of the device or its
	// port. It is set before DeliverEvents.
	PortChanged func()

	mu       sync.Mutex
	contexts map[*context]struct{} // that get the events of the device
	numbers  map[uint32]struct{}   // of open contexts
}

func NewDevice(d *device.Device) *Device {
	v := &Device{Device: d, provider: rxe{}, contexts: make(map[*context]struct{}), numbers: make(map[uint32]struct{})}
	if d.Adapter.IWARP() {
		v.provider = siw{}
	}
	return v
}

// Open opens the device's file for a program.
func (d *Device) Open(f *client.File) (client.Service, error) {
	x := newContext(f, d)
	d.mu.Lock()
	defer d.mu.Unlock()
	for used := true; used; {
		if _, used = d.numbers[x.number]; used {
			x.number++
		}
	}
	d.numbers[x.number] = struct{}{}
	return x, nil
}

func (d *Device) forget(x *context) {
	d.mu.Lock()
	delete(d.contexts, x)
	delete(d.numbers, x.number)
	d.mu.Unlock()
}

// An eventTarget is an object whose program gets its asynchronous events.
type eventTarget interface{ asyncEvent(e adapter.AsyncEvent) }

// DeliverEvents passes asynchronous events of the adapter to the programs whose
// objects they concern, and events of the device to all programs.
func (d *Device) DeliverEvents(ctx stdcontext.Context) {
	for {
		e, err := d.Adapter.NextEvent(ctx)
		if err != nil {
			return
		}
		if x, ok := local.Owner(&e).(eventTarget); ok {
			x.asyncEvent(e)
		} else if e.Element == nil {
			if d.PortChanged != nil {
				d.PortChanged()
			}
			d.broadcast(e.Type)
		}
	}
}

// broadcast sends every program an event of the device or its port.
func (d *Device) broadcast(t machine.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.contexts {
		x.sendEvent(t, 1)
	}
}

func (x *context) getContext(c *command) error {
	if x.async != nil {
		return syscall.EINVAL
	}
	var end int
	var err error
	if x.async, end, err = client.NewPipe(uapi.Size[uapi.AsyncEvent](), x.file.Account); err != nil {
		return err
	}
	x.dev.mu.Lock()
	x.dev.contexts[x] = struct{}{}
	x.dev.mu.Unlock()
	if err := c.respond(uapi.Bytes(&uapi.GetContextResp{NumCompVectors: 1}), x.provider.context()); err != nil {
		unix.Close(end)
		return err
	}
	c.Answer.Attach(end, c.out.Addr, 4, uapi.KindAsync)
	return nil
}

func attributesOf(x *context) uapi.QueryDeviceResp {
	return x.dev.Attributes(x.file.Account.Mappings.Max, x.file.Account.Memory.Max)
}

func (x *context) queryDevice(c *command) error {
	r := attributesOf(x)
	return c.respond(uapi.Bytes(&r), nil)
}

func (x *context) exQueryDevice(c *command) error {
	r := uapi.ExQueryDeviceResp{Base: attributesOf(x)}
	r.DeviceCapFlagsEx = uint64(r.Base.DeviceCapFlags)
	if !x.dev.Adapter.IWARP() {
		r.DeviceCapFlagsEx |= device.MoreCaps
		addOnDemand(&r, c.Process)
	}
	r.ResponseLength = uint32(min(c.out.N, uapi.Size[uapi.ExQueryDeviceResp]()))
	return c.respond(uapi.Bytes(&r), nil)
}

func (x *context) queryPort(c *command) error {
	q, _ := uapi.Parse[uapi.QueryPort](c.core)
	r, err := x.dev.Port(uint32(q.PortNum))
	if err != nil {
		return err
	}
	return c.respond(uapi.Bytes(&r), nil)
}
