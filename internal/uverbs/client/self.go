//go:build linux

package client

import (
	"os"
)

// NewSelf returns the process that this code runs in, whose program uses a device of the
// same process. Its quotas are what the process may still open and map.
func NewSelf() *Process {
	return &Process{
		PID: os.Getpid(), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), self: true,
		Account: NewBudget().NewAccount(),
	}
}

// Self reports whether p is this process: its memory can be used in place.
func (p *Process) Self() bool { return p.self }
