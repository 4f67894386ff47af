//go:build linux

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/object"
	"softrdma/internal/uverbs/uapi"
)

// take returns an idle connection or a new one.
func (d *Device) take() (*conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, object.ErrClosed
	}
	if n := len(d.idle); n > 0 {
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		return c, nil
	}
	d.mu.Unlock()
	c, err := dial(d.socket)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		c.close()
		return nil, object.ErrClosed
	}
	d.conns[c] = struct{}{}
	return c, nil
}

// give ends take. It closes a connection that failed, and an idle one beyond
// GOMAXPROCS, because each connection occupies a thread in the daemon.
func (d *Device) give(c *conn, failed bool) {
	d.mu.Lock()
	keep := !failed && !d.closed && len(d.idle) < runtime.GOMAXPROCS(0)
	if keep {
		d.idle = append(d.idle, c)
	} else {
		delete(d.conns, c)
	}
	d.mu.Unlock()
	if !keep {
		c.close()
	}
}

// call makes a call on the file of r, or on the device's file if r names none. It
// returns the reply and descriptors, and copies the daemon's answer from the
// connection's room to answer.
func (d *Device) call(r *uapi.Request, data, rights, answer []byte, room func(c *conn)) (p uapi.Reply, fds []int, err error) {
	if r.File == 0 {
		r.File = d.file
	}
	r.Op |= uapi.OpTell
	for tries := 0; ; tries++ {
		c, e := d.take()
		if e != nil {
			return p, nil, d.lost(e)
		}
		if room != nil {
			room(c)
		}
		var text []byte
		p, text, fds, err = c.call(r, data, rights)
		if err == nil {
			if err = failure(&p, text, d.Info.Reasons); err != nil {
				closeAll(fds)
				fds = nil
			}
			copy(answer, c.room[:])
		}
		var lost *lostError
		failed := errors.As(err, &lost)
		d.give(c, failed)
		if !failed {
			return p, fds, err
		}
		if !lost.unsent || tries == 1 {
			return p, nil, d.lost(err)
		}
	}
}

// lost returns the error of a call that could not reach the daemon.
func (d *Device) lost(err error) error {
	if errors.Is(err, object.ErrClosed) {
		return object.ErrClosed
	}
	return fmt.Errorf("%w: %w", object.ErrClosed, err)
}

// obtain makes a command that returns descriptors. core is the structure that the
// kernel defines, whose first eight bytes are the address of the answer if out is
// not 0. own is softrdma's addition to it. The answer has out bytes followed by
// outOwn bytes.
func (d *Device) obtain(number uint32, core, own []byte, out, outOwn int, rights ...int) (answer []byte, fds []int, err error) {
	h := uapi.CmdHeader{Command: number, InWords: uint16((8 + len(core) + len(own)) / 4), OutWords: uint16((out + outOwn) / 4)}
	data := slices.Concat(uapi.Bytes(&h), core, own)
	answer = make([]byte, out+outOwn)
	r := uapi.Request{Op: uapi.OpWrite, Arg: [4]uint64{1: uint64(len(data))}}
	var control []byte
	if len(rights) > 0 {
		control = unix.UnixRights(rights...)
	}
	_, fds, err = d.call(&r, data, control, answer, func(c *conn) {
		clear(c.room[:])
		if out > 0 {
			binary.NativeEndian.PutUint64(data[8:], uint64(uintptr(unsafe.Pointer(&c.room))))
		}
	})
	return answer, fds, err
}

// command is obtain without descriptors.
func (d *Device) command(number uint32, core, own []byte, out, outOwn int, rights ...int) (answer []byte, err error) {
	answer, fds, err := d.obtain(number, core, own, out, outOwn, rights...)
	closeAll(fds)
	return answer, err
}

// ask is command that only has an answer.
func ask[T any](d *Device, number uint32, core []byte) (v T, err error) {
	a, err := d.command(number, core, nil, uapi.Size[T](), 0)
	if err == nil {
		v, _ = uapi.Parse[T](a)
	}
	return v, err
}

// do is command without an answer.
func (d *Device) do(number uint32, core []byte) error {
	_, err := d.command(number, core, nil, 0, 0)
	return err
}

// mmap maps memory of the daemon, which must have at least n bytes.
func (d *Device) mmap(mi uapi.MmInfo, n int) ([]byte, error) {
	if int(mi.Size) < n {
		return nil, fmt.Errorf("the daemon's ring: expected %d bytes, found %d: %w", n, mi.Size, syscall.EPROTO)
	}
	r := uapi.Request{Op: uapi.OpMmap, Arg: [4]uint64{mi.Offset, uint64(mi.Size)}}
	_, fds, err := d.call(&r, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	defer closeAll(fds)
	if len(fds) != 1 {
		return nil, fmt.Errorf("mmap gave %d descriptors: %w", len(fds), syscall.EPROTO)
	}
	for tries := 0; ; tries++ {
		mem, err := unix.Mmap(fds[0], 0, int(mi.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if errors.Is(err, syscall.ENOMEM) && tries == 0 {
			runtime.GC() // unmaps the memory of destroyed rings, see keep
			continue
		}
		return mem, err
	}
}

// keep unmaps memory when its ring is garbage-collected, because other goroutines
// may use the ring during and after its destruction.
func keep[T any](ring *T, mem []byte) {
	runtime.AddCleanup(ring, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
}
