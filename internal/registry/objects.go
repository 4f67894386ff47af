package registry

import (
	"maps"
	"os"
	"slices"

	"softrdma/internal/adapter"
	"softrdma/internal/object"
)

// List describes the device's objects, those of this process with its number.
func (e *Entry) List() object.List {
	if f := e.Objects.Load(); f != nil {
		return (*f)()
	}
	l := adapter.ObjectsOf(e.Adapter)
	if m := e.registry.manager.Load(); m != nil {
		l.IDs = slices.AppendSeq(l.IDs, maps.Values(m.Describe(e.Adapter)))
		l.Sort()
	}
	l.Owners(func(o *object.Owner) { o.PID = os.Getpid() })
	return l
}
