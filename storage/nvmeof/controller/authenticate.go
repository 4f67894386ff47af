package controller

import (
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/dhchap"
)

// authLength returns the length of the data of an authentication command.
func (q *Queue) authLength(c *Command) (uint64, *Refusal) {
	length, ok := dhchap.CommandFields(&c.Command)
	switch {
	case q.auth == nil:
		return 0, refuse(OpcodeUnknown, 0, uint64(c.Fabrics()))
	case !ok:
		return 0, refuse(FieldValue, uint64(dhchap.Command(true, 0).CDW10), uint64(c.CDW10))
	case length < dhchap.HeadLen || length > dhchap.MaxLen:
		return 0, refuse(FieldValue, dhchap.MaxLen, uint64(length))
	}
	return uint64(length), nil
}

// authenticate takes a message of the host, or returns one to it.
func (q *Queue) authenticate(c *Command, data []byte) *Refusal {
	q.subs.mu.Lock()
	side := q.auth
	q.subs.mu.Unlock()
	if c.Fabrics() == capsule.FabricsAuthSend {
		side.Send(data)
		return nil
	}
	ok, err := side.Receive(data)
	switch {
	case !ok:
		return refuse(FieldValue, dhchap.MaxLen, uint64(len(data)))
	case err != nil:
		c.Failed = &Refusal{Why: AuthenticationFailed, Status: AuthenticationFailed.Status(), Err: err}
	}
	return nil
}

// Ready reports whether the queue is connected, and its host authenticated if it must be.
func (q *Queue) Ready() bool {
	q.subs.mu.Lock()
	defer q.subs.mu.Unlock()
	return q.admitted()
}

// admitted reports whether the queue is its controller's, and its host authenticated if it must be.
func (q *Queue) admitted() bool { return q.joined && (q.auth == nil || q.auth.Done()) }
