//go:build linux

package commands

import (
	"fmt"
	"strings"
	"syscall"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// A context is an open uverbs file: the objects of one program behind their
// handles.
type context struct {
	file     *client.File
	dev      *Device
	number   uint32   // among the device's contexts, from 1
	provider provider // of the program
	objects  map[uint32]object
	held     [kinds]uint32 // objects of each kind
	next     uint32
	async    *client.Pipe
	channels map[uint64]*channel // by the inode of the program's end
	maps     client.Mappings
	direct   direct
}

// An object is what a handle stands for.
type object interface {
	// destroy ends the object. It fails if others use it.
	destroy() error
	kind() kind
}

// A kind is a type of object. Objects of a lower kind may use those of a higher one, so a
// file that ends destroys them in this order.
type kind int

const (
	kindQP kind = iota
	kindCQ
	kindSRQ
	kindAH
	kindMW
	kindMR
	kindPD
	kinds
)

// limit returns how many objects of this kind a program may have, by the attributes that
// the device tells it.
func (k kind) limit(a *uapi.QueryDeviceResp) uint32 {
	return [kinds]uint32{kindQP: a.MaxQP, kindCQ: a.MaxCQ, kindSRQ: a.MaxSRQ, kindAH: a.MaxAH, kindMW: a.MaxMW, kindMR: a.MaxMR, kindPD: a.MaxPD}[k]
}

// bytes returns how much memory an object of this kind counts for.
func (k kind) bytes() int64 {
	if k == kindQP {
		return device.PairBytes
	}
	return device.ObjectBytes
}

func newContext(f *client.File, d *Device) *context {
	return &context{file: f, dev: d, number: 1, provider: d.provider, objects: make(map[uint32]object), channels: make(map[uint64]*channel)}
}

// add assigns a handle to an object.
func (x *context) add(o object) uint32 {
	for x.objects[x.next] != nil {
		x.next++
	}
	h := x.next
	x.next++
	x.objects[h] = o
	x.held[o.kind()]++
	x.direct.set(h, o)
	return h
}

// forget removes a destroyed object.
func (x *context) forget(handle uint32) {
	k := x.objects[handle].kind()
	x.held[k]--
	x.file.Account.Memory.Return(k.bytes())
	delete(x.objects, handle)
	x.direct.set(handle, nil)
}

// find returns the object of a handle, which must have the right type. As in Linux, a
// handle of nothing is ENOENT and a handle of another type is EINVAL. Linux before 6.15
// gives ENOENT only to commands that destroy.
func find[T object](x *context, handle uint32) (T, error) {
	found, exists := x.objects[handle]
	o, ok := found.(T)
	if ok {
		return o, nil
	}
	no := syscall.EINVAL
	if !exists {
		no = syscall.ENOENT
	}
	return o, fmt.Errorf("no %s: %w", strings.TrimPrefix(fmt.Sprintf("%T", o), "*commands."),
		client.Refuse(no, reason.CommandHandle, uint64(len(x.objects)), uint64(handle)))
}

// remove destroys the object of a handle.
func remove[T object](x *context, handle uint32) (T, error) {
	o, err := find[T](x, handle)
	if err != nil {
		return o, err
	}
	if err := o.destroy(); err != nil {
		return o, err
	}
	x.forget(handle)
	return o, nil
}

// End implements client.Service. It destroys all objects, users first.
func (x *context) End() {
	abandon(x)
	for k := range kinds {
		for h, o := range x.objects {
			if o.kind() == k && o.destroy() == nil {
				x.forget(h)
			}
		}
	}
	for _, c := range x.channels {
		c.destroy()
	}
	x.maps.Close()
	if x.async != nil {
		x.async.Close()
	}
	x.dev.forget(x)
}

// Fail implements client.Service. It flushes posted requests, for programs that poll,
// and raises the event of a fatal error, for programs that wait (IBTA 11.6.3).
func (x *context) Fail() {
	for _, o := range x.objects {
		if q, ok := o.(*queuePair); ok {
			// A queue pair in RESET refuses, and has nothing to flush.
			_ = q.a.Modify(qp.MaskState, &qp.Attr{State: qp.Err})
		}
	}
	if x.async != nil {
		x.sendEvent(machine.EventDeviceFatal, 0)
	}
}

// sendEvent sends the program an event of the device or its port.
func (x *context) sendEvent(t machine.Event, element uint64) {
	x.async.Put(uapi.Bytes(&uapi.AsyncEvent{Element: element, EventType: uint32(t)}))
}

// Count implements client.Service.
func (x *context) Count() int { return len(x.objects) + len(x.channels) }

func (x *context) Mmap(c *client.Call, offset, length uint64, _ int) error {
	return x.maps.Take(c, offset, length)
}

// A command is a parsed command, divided into the part that the kernel defines and
// the part that the provider adds.
type command struct {
	*client.Call
	core, driver   []byte
	out, outDriver client.Buffer
}

// respond writes both parts of the answer.
func (c *command) respond(core, driver []byte) error {
	if err := c.Store(c.out, core); err != nil {
		return err
	}
	return c.Store(c.outDriver, driver)
}

// A row holds libibverbs' name of the call that makes a command, the lengths of the command and
// its answer, as the kernel defines them, and the function that carries it out.
type row struct {
	call    string
	in, out int
	do      func(x *context, c *command) error
}

// Write implements client.Service: it executes a command (ib_uverbs_write).
func (x *context) Write(c *client.Call, buf []byte) error {
	h, ok := uapi.Parse[uapi.CmdHeader](buf)
	if !ok {
		return syscall.EINVAL
	}
	if h.Command&uapi.CmdExtended != 0 {
		return x.writeExtended(c, h, buf)
	}
	r := commands[h.Command]
	if r == nil {
		return fmt.Errorf("command %d: %w", h.Command, syscall.EOPNOTSUPP)
	}
	head := uapi.Size[uapi.CmdHeader]()
	if int(h.InWords)*4 != len(buf) {
		return syscall.EINVAL
	}
	body := buf[head:]
	out := int(h.OutWords) * 4
	if len(body) < r.in || out < r.out {
		return syscall.ENOSPC
	}
	cmd := &command{Call: c, core: body[:r.in], driver: body[r.in:]}
	if r.out > 0 {
		to, _ := uapi.Parse[uapi.Response](body) // every command with an answer begins with it
		cmd.out = client.Buffer{Addr: to.Response, N: r.out}
		cmd.outDriver = client.Buffer{Addr: to.Response + uint64(r.out), N: out - r.out}
	}
	return r.execute(x, cmd)
}

// execute executes a command, unless a rule of faults makes its call fail.
func (r *row) execute(x *context, c *command) error {
	if err := x.dev.Adapter.FailCall(r.call); err != nil {
		return err
	}
	return r.do(x, c)
}

// writeExtended executes a command with the extended header.
func (x *context) writeExtended(c *client.Call, h uapi.CmdHeader, buf []byte) error {
	r := extended[h.Command&uapi.CmdMask]
	if r == nil {
		return fmt.Errorf("extended command %d: %w", h.Command&uapi.CmdMask, syscall.EOPNOTSUPP)
	}
	body := buf[uapi.Size[uapi.CmdHeader]():]
	ex, ok := uapi.Parse[uapi.ExHeader](body)
	if !ok {
		return syscall.EINVAL
	}
	body = body[uapi.Size[uapi.ExHeader]():]
	in, driver := int(h.InWords)*8, int(ex.ProviderInWords)*8
	if in+driver != len(body) || ex.Reserved != 0 {
		return syscall.EINVAL
	}
	out := int(h.OutWords) * 8
	if in < r.in || out < r.out {
		return syscall.ENOSPC
	}
	return r.execute(x, &command{
		Call: c, core: body[:in], driver: body[in:], out: client.Buffer{Addr: ex.Response, N: out},
		outDriver: client.Buffer{Addr: ex.Response + uint64(out), N: int(ex.ProviderOutWord) * 8},
	})
}
