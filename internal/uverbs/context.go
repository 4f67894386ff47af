//go:build linux

package uverbs

import (
	"fmt"
	"strings"
	"syscall"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// A context is an open uverbs file: the objects of one program behind their
// handles.
type context struct {
	file     *file
	dev      *device
	provider provider // the program's
	objects  map[uint32]object
	next     uint32
	async    *pipe
	own      bool                // a program of this module's, see uapi
	channels map[uint64]*channel // by the inode of the program's end
	maps     mappings
	board    board
}

// An object is what a handle stands for.
type object interface {
	// destroy gives the object up; it fails where others use it.
	destroy() error
	// rank orders the end of a file: objects of a lower rank use those of a
	// higher one.
	rank() int
}

func newContext(f *file, d *device) *context {
	return &context{file: f, dev: d, provider: d.provider, objects: make(map[uint32]object), channels: make(map[uint64]*channel)}
}

// add gives an object a handle.
func (x *context) add(o object) uint32 {
	for x.objects[x.next] != nil {
		x.next++
	}
	h := x.next
	x.next++
	x.objects[h] = o
	return h
}

// find gives the object of a handle, which must be of the right type.
func find[T object](x *context, handle uint32) (T, error) {
	o, ok := x.objects[handle].(T)
	if !ok {
		return o, fmt.Errorf("no %s: %w", strings.TrimPrefix(fmt.Sprintf("%T", o), "*uverbs."),
			refuse(syscall.EINVAL, reason.CommandHandle, uint64(len(x.objects)), uint64(handle)))
	}
	return o, nil
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
	delete(x.objects, handle)
	return o, nil
}

// end implements service: everything goes, users first.
func (x *context) end() {
	for rank := 0; rank <= maxRank; rank++ {
		for h, o := range x.objects {
			if o.rank() == rank && o.destroy() == nil {
				delete(x.objects, h)
			}
		}
	}
	for _, c := range x.channels {
		c.destroy()
	}
	x.board.close()
	for _, s := range x.maps.by {
		s.close()
	}
	if x.async != nil {
		x.async.close()
	}
	x.dev.forget(x)
}

// fail flushes what was posted, for those who poll, and raises the event of a
// fatal error, for those who wait (IBTA 11.6.3).
func (x *context) fail() {
	for _, o := range x.objects {
		if q, ok := o.(*queuePair); ok {
			// One in RESET has nothing to flush, and refuses.
			_ = q.a.Modify(qp.MaskState, &qp.Attr{State: qp.Err})
		}
	}
	if x.async != nil {
		x.tell(machine.EventDeviceFatal, 0)
	}
}

// tell gives the program an event of the device or its port.
func (x *context) tell(t machine.Event, element uint64) {
	e := uapi.OwnEvent{AsyncEvent: asyncEvent{Element: element, EventType: uint32(t)}}
	x.async.put(bytesOf(&e)[:x.async.size])
}

// own is what a program of this module's adds to a command, the zero value
// where there is nothing.
func own[T any](c *command, x *context) T {
	v, _ := ownPart[T](c, x)
	return v
}

// ownPart is own, and tells whether there is something.
func ownPart[T any](c *command, x *context) (v T, ok bool) {
	if x.own {
		v, ok = parse[T](c.driver)
	}
	return v, ok
}

// count implements service.
func (x *context) count() int { return len(x.objects) + len(x.channels) }

func (x *context) mmap(c *call, offset, length uint64, _ int) error {
	return x.maps.take(c, offset, length)
}

// A command is a legacy command, or one that came by ioctl, taken apart: what
// the kernel defines and what the provider added.
type command struct {
	*call
	core, driver   []byte
	out, outDriver room
}

// answer writes what the kernel defines, and what the provider added to it.
func (c *command) respond(core, driver []byte) error {
	if err := c.store(c.out, core); err != nil {
		return err
	}
	return c.store(c.outDriver, driver)
}

// A row is how long a command and its answer are, as the kernel defines them,
// and what carries it out.
type row struct {
	in, out int
	do      func(x *context, c *command) error
}

// write carries out a command that was written (ib_uverbs_write).
func (x *context) write(c *call, buf []byte) error {
	h, ok := parse[cmdHeader](buf)
	if !ok {
		return syscall.EINVAL
	}
	if h.Command&cmdExtended != 0 {
		return x.writeExtended(c, h, buf)
	}
	r := commands[h.Command]
	if r == nil {
		return fmt.Errorf("command %d: %w", h.Command, syscall.EOPNOTSUPP)
	}
	head := size[cmdHeader]()
	if int(h.InWords)*4 != len(buf) {
		return syscall.EINVAL
	}
	body := buf[head:]
	out := int(h.OutWords) * 4
	if len(body) < r.in || out < r.out {
		return syscall.ENOSPC
	}
	cmd := &command{call: c, core: body[:r.in], driver: body[r.in:]}
	if r.out > 0 {
		to, _ := parse[response](body) // every command with an answer begins with it
		cmd.out = room{to.Response, r.out}
		cmd.outDriver = room{to.Response + uint64(r.out), out - r.out}
	}
	return r.do(x, cmd)
}

// writeExtended carries out a command with the extended header.
func (x *context) writeExtended(c *call, h cmdHeader, buf []byte) error {
	r := extended[h.Command&cmdMask]
	if r == nil {
		return fmt.Errorf("extended command %d: %w", h.Command&cmdMask, syscall.EOPNOTSUPP)
	}
	body := buf[size[cmdHeader]():]
	ex, ok := parse[exHeader](body)
	if !ok {
		return syscall.EINVAL
	}
	body = body[size[exHeader]():]
	in, driver := int(h.InWords)*8, int(ex.ProviderInWords)*8
	if in+driver != len(body) || ex.Reserved != 0 {
		return syscall.EINVAL
	}
	out := int(h.OutWords) * 8
	if in < r.in || out < r.out {
		return syscall.ENOSPC
	}
	return r.do(x, &command{
		call: c, core: body[:in], driver: body[in:], out: room{ex.Response, out},
		outDriver: room{ex.Response + uint64(out), int(ex.ProviderOutWord) * 8},
	})
}

// ioctl implements service. The system without this interface is one that
// libraries know: they write their commands.
func (x *context) ioctl(*call, uint64, uint64) error { return syscall.ENOTTY }
