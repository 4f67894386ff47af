//go:build linux

package commands

import objects "softrdma/internal/object"

// Owner is what tools see as the owner of the context's objects.
func (x *context) Owner() objects.Owner { return objects.Owner{PID: x.file.PID, Context: x.number} }
