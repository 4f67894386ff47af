//go:build linux

package ucm

import (
	"softrdma/internal/cmid"
	"softrdma/internal/rdmanl"
	"softrdma/internal/uverbs/device"
)

// Describe returns the ids on a device whose files allow returns true for. As in Linux, an id that
// listens on all addresses is on all devices, and other ids without a device are on none.
func (a *Manager) Describe(d *device.Device, allow func(uid uint32) bool) (list []rdmanl.Identifier) {
	type found struct {
		x   *connection
		pid int
	}
	var all []found // the ids are asked without the lock
	a.mu.Lock()
	for _, x := range a.ids {
		if f := x.file.file; allow(f.UID()) {
			all = append(all, found{x, f.PID})
		}
	}
	a.mu.Unlock()
	for _, f := range all {
		id := f.x.id
		of, state := id.Device(), id.State()
		if of != d.Adapter && (of != nil || state != cmid.Listen) {
			continue
		}
		list = append(list, rdmanl.Identifier{
			Owner: rdmanl.Owner{PID: uint32(f.pid)}, Number: f.x.num, Type: uint8(id.Type()), State: uint8(state),
			PortSpace: uint32(id.PortSpace()), Port: of != nil, Src: id.Local(), Dst: id.Remote(),
		})
	}
	return list
}
