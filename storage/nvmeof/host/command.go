package host

import (
	"context"
	"sync"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/status"
)

// A commandState says who may touch a command's data.
type commandState uint8

const (
	waiting commandState = iota // in a list, to be sent
	flying                      // in a slot of a queue
	ended                       // the caller has its data back
)

// A command is sent on a queue, or on several one after the other if connections end.
type command struct {
	entry capsule.Command // the queue sets identifier and descriptor
	data  []byte          // to send or to fill in
	ns    *Namespace      // of a command for blocks; others are not repeated
	done  func()          // called once, unless the caller has given the command up

	mu      sync.Mutex // of all below, held while data is accessed
	state   commandState
	direct  bool        // the controller accesses data itself, which is registered memory
	repeats int         // after failures that the controller reports
	avoid   *Controller // another one is better
	givenUp error       // why the caller does not want it to be repeated
	result  uint64
	err     error
}

// maxRepeats is Config.Repeats of programs that do not choose.
const maxRepeats = 5

// end ends the command.
func (c *command) end(err error) {
	c.mu.Lock()
	if c.state == ended { // given up
		c.mu.Unlock()
		return
	}
	c.state, c.err = ended, err
	c.mu.Unlock()
	c.done()
}

// lost is called when the command's connection has ended.
func (c *command) lost(err error) {
	if c.ns == nil {
		c.end(err)
		return
	}
	c.mu.Lock()
	again := c.state != ended
	if again {
		c.state = waiting
	}
	givenUp := c.givenUp
	c.mu.Unlock()
	switch {
	case givenUp != nil:
		c.end(givenUp)
	case again:
		c.ns.start(c)
	}
}

// completed is called with the completion of the command by a controller.
func (c *command) completed(l *link, k *capsule.Completion) {
	c.mu.Lock()
	if c.state == ended {
		c.mu.Unlock()
		return
	}
	c.result = k.Result
	repeat := c.ns != nil && c.givenUp == nil && k.Status != status.Success && c.ns.repeats(c, l, k.Status)
	if repeat {
		c.state = waiting
	}
	c.mu.Unlock()
	switch {
	case repeat:
		c.ns.start(c)
	case k.Status != status.Success:
		c.end(&status.Error{Status: k.Status, Result: k.Result})
	default:
		c.end(nil)
	}
}

// run starts a command and waits until it or ctx ends. Memory that the controller may access is the
// caller's again only when the command has ended.
func run(ctx context.Context, c *command, start func(*command)) (uint64, error) {
	done := make(chan struct{})
	c.done = func() { close(done) }
	start(c)
	select {
	case <-done:
		return c.result, c.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	wait := c.state == ended || c.state == flying && c.direct
	if wait {
		c.givenUp = ctx.Err()
	} else {
		c.state, c.err = ended, ctx.Err()
	}
	c.mu.Unlock()
	if wait {
		<-done
	} else if c.ns != nil {
		c.ns.forget(c)
	}
	return c.result, c.err
}
