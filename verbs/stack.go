package verbs

import "softrdma/internal/registry"

// A Stack is a set of devices that know each other: an address with a port belongs to one
// device of a stack, and its devices pass packets to each other in memory. Package rdmacm
// makes connections on the devices of a stack separately from other stacks, with separate port
// numbers.
//
// Most programs have one stack, which Open uses. With a second one a program can run two hosts
// that only meet on the network.
type Stack struct{ owner }

type owner = registry.Owner

// process is the stack of Open.
var process = &Stack{registry.NewOwner(registry.Process)}

// orProcess returns the stack, or that of the process if s is nil.
func (s *Stack) orProcess() *Stack {
	if s == nil {
		return process
	}
	return s
}

// NewStack makes a stack without devices.
func NewStack() *Stack { return &Stack{registry.NewOwner(new(registry.Registry))} }

func (s *Stack) reg() *registry.Registry { return registry.OfStack(s) }
