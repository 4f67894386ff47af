package samehost

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// An outbox sends messages so that no lane has to wait. Its goroutine runs while there are
// any.
type outbox struct {
	mu      sync.Mutex
	queue   []letter
	closed  bool
	running sync.WaitGroup
	busy    bool
}

// maxQueue bounds the messages queued for a peer that does not read. A longer queue ends the
// channel.
const maxQueue = 4 * maxSegments

func (o *outbox) close() {
	o.mu.Lock()
	o.closed, o.queue = true, nil
	o.mu.Unlock()
	o.running.Wait()
}

// put queues a message, with the descriptor of a segment unless it is nil.
func (c *channel) put(m *message, s segmentFile) {
	o := &c.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if len(o.queue) >= maxQueue {
		c.Close()
		return
	}
	o.queue = append(o.queue, letter{*m, s})
	if !o.busy {
		o.busy = true
		o.running.Add(1)
		go c.post()
	}
}

// post sends the messages in the outbox.
func (c *channel) post() {
	o := &c.outbox
	defer o.running.Done()
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		l := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		fd := -1
		if l.file != nil {
			if fd = readOnly(l.file); fd < 0 {
				continue // never offered
			}
		}
		if fd < 0 {
			_ = c.send(&l.message)
			continue
		}
		_ = c.send(&l.message, fd)
		_ = unix.Close(fd)
	}
}

// A letter is a message in the outbox.
type letter struct {
	message
	file segmentFile
}

// A segmentFile has a descriptor while it is open.
type segmentFile interface{ Use(f func(fd int)) bool }

// readOnly opens a segment's file for reading only, or returns -1. A duplicate of the
// descriptor would give the peer all rights of this process on the file.
func readOnly(s segmentFile) int {
	ro := -1
	s.Use(func(fd int) {
		f, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			ro = f
		}
	})
	return ro
}
