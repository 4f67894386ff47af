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
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.ids {
		if !allow(x.file.file.UID()) {
			continue
		}
		of, state := x.id.Device(), x.id.State()
		if of != d.Adapter && (of != nil || state != cmid.Listen) {
			continue
		}
		list = append(list, rdmanl.Identifier{
			Owner: rdmanl.Owner{PID: uint32(x.file.file.PID)}, Number: x.num, Type: uint8(x.id.Type()), State: uint8(state),
			PortSpace: uint32(x.id.PortSpace()), Port: of != nil, Src: x.id.Local(), Dst: x.id.Remote(),
		})
	}
	return list
}
