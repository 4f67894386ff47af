//go:build linux

package commands

import (
	"encoding/binary"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// eventSource sends the events of an object to its program and counts them. A
// program that destroys the object gets the number of those it has read or will
// read, and waits until as many were acknowledged.
type eventSource struct {
	user uint64 // the program's name for the object
	to   *client.Pipe

	mu   sync.Mutex
	n    uint32
	dead bool
}

// send sends the program an event.
func (r *eventSource) send(record []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead && r.to != nil {
		r.to.Put(record)
		r.n++
	}
}

// end takes back unread events and returns the number of the others.
func (r *eventSource) end() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead && r.to != nil {
		r.n -= uint32(r.to.Remove(func(b []byte) bool { return binary.NativeEndian.Uint64(b) == r.user }))
	}
	r.dead = true
	return r.n
}

func (r *eventSource) asyncEvent(e adapter.AsyncEvent) {
	if r.to == nil {
		return
	}
	r.send(uapi.Bytes(&uapi.AsyncEvent{Element: r.user, EventType: uint32(e.Type)}))
}

// A channel is a completion channel: a pipe with the program's names for its
// completion queues.
type channel struct {
	a    *adapter.Channel
	pipe *client.Pipe

	mu   sync.Mutex
	uses int
	gone bool // the program has closed it
}

func (x *context) createChannel(c *command) error {
	p, end, err := client.NewPipe(8, x.file.Account)
	if err != nil {
		return err
	}
	h := &channel{pipe: p}
	if h.a, err = x.dev.Adapter.CreateNotifyChannel(func(q *adapter.CQ) { q.Owner.(*cq).completed() }); err != nil {
		unix.Close(end)
		p.Close()
		return err
	}
	if err := c.respond(uapi.Bytes(&uapi.HandleOnly{}), nil); err != nil {
		unix.Close(end)
		h.destroy()
		return err
	}
	x.channels[p.Inode] = h
	c.Answer.Attach(end, c.out.Addr, 4, uapi.KindChannel)
	running := &x.file.Runtime.Running
	running.Add(1)
	if err := p.OnClose(func() { defer running.Done(); h.leave(x) }); err != nil {
		running.Done()
	}
	return nil
}

// leave is called when the program has closed the channel. The queues that use it
// have no events any more.
func (h *channel) leave(x *context) {
	x.file.Between(func() {
		if x.channels[h.pipe.Inode] == h {
			delete(x.channels, h.pipe.Inode)
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	h.pipe.Close()
	if h.uses == 0 {
		_ = h.a.Destroy()
	}
}

func (h *channel) hold() {
	h.mu.Lock()
	h.uses++
	h.mu.Unlock()
}

// drop ends hold. The last user of a closed channel destroys it.
func (h *channel) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses--; h.uses == 0 && h.gone {
		_ = h.a.Destroy()
	}
}

// destroy ends the channel with its file.
func (h *channel) destroy() {
	_ = h.a.Destroy()
	h.pipe.Close()
}

// channelOf returns the channel of a program's descriptor, which may be a duplicate;
// nil for -1.
func (x *context) channelOf(p *client.Process, fd int32) (*channel, error) {
	if fd < 0 {
		return nil, nil
	}
	inode, err := p.PipeInode(int(fd))
	if err != nil {
		return nil, err
	}
	h := x.channels[inode]
	if h == nil {
		return nil, syscall.EBADF
	}
	return h, nil
}
