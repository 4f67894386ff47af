//go:build linux

package commands

import objects "softrdma/internal/object"

// owner is what tools see as the owner of the context's objects.
func (x *context) owner() objects.Owner { return objects.Owner{PID: x.file.PID, Context: x.number} }

// Describe returns the context for tools.
func (x *context) Describe() objects.Context { return objects.Context{Owner: x.owner()} }
