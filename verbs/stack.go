package verbs

import "softrdma/internal/registry"

// A Stack is a set of devices that know each other: one address and port is one
// device of a stack, and its devices hand each other packets in memory. Package
// rdmacm makes connections on the devices of a stack apart from those of others,
// with port numbers of its own.
//
// Most programs have one, which Open uses. A second one lets a program run two
// hosts that meet on the network alone.
type Stack struct{ reg *registry.Registry }

// process is the stack of Open.
var process = &Stack{registry.Process}

func init() { registry.NewStack = func(r *registry.Registry) any { return &Stack{r} } }

// NewStack makes a stack without devices.
func NewStack() *Stack { return &Stack{new(registry.Registry)} }
