//go:build linux

package ucm

import (
	"softrdma/internal/object"
	"softrdma/internal/uverbs/device"
)

// Describe returns the ids on a device whose files allow returns true for.
func (a *Manager) Describe(d *device.Device, allow func(uid uint32) bool) []object.ID {
	all, list := a.cma.Describe(d.Adapter), []object.ID{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, o := range all {
		x := a.by[id]
		if x == nil || !allow(x.file.file.UID()) { // no program has the id of a queued request yet
			continue
		}
		o.PID, o.Number = x.file.file.PID, x.num
		list = append(list, o)
	}
	return list
}
