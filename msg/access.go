package msg

import (
	"softrdma/msg/internal/access"
	"softrdma/verbs"
)

const (
	maxAccesses = access.Max   // in flight
	shortAccess = access.Short // bytes that are copied instead of registered
)

// A port carries the accesses of a connection.
type port struct{ c *connection }

func (p port) Err() error   { return p.c.err }
func (p port) Failed() bool { return p.c.Broken() }

// Fail leaves the end of the connection to the next push.
func (p port) Fail(err error) { p.c.Break(err) }

func (p port) Post(slot int, r *verbs.SendWR) error { return p.c.Post(slot, r) }

func (p port) Frames() uint64 { return p.c.Frames() }

func (p port) Arrived(frames uint64) { p.c.Arrived(frames) }

// operation begins an operation that consists of accesses. The caller holds the lock, begins the accesses,
// ends its own part and calls Worker.flush.
func (r *Request) operation() *access.Operation {
	return r.worker.accesses.Begin(&r.accesses, r)
}

// accessed ends a request whose accesses have ended.
func accessed(owner any, err error) {
	r := owner.(*Request)
	r.end(r.info, err)
}
