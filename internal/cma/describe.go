package cma

import (
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/object"
)

// Describe describes the ids on a device. As in Linux, an id that listens on all addresses is on all
// devices, and other ids without a device are on none. Numbers are in the order of creation.
func (m *Manager) Describe(dev *adapter.Device) map[*ID]object.ID {
	m.lock()
	defer m.unlock()
	all := make(map[*ID]object.ID)
	if d := m.devices[dev]; d != nil {
		for id := range d.ids {
			all[id] = describe(id)
		}
	}
	for id := range m.wildcards {
		all[id] = describe(id)
	}
	return all
}

func describe(id *ID) object.ID {
	o := object.ID{
		Number: uint32(id.seq), Type: id.kind.String(), State: id.state.String(), PortSpace: id.space.String(),
		Bound: id.dev != nil, Source: id.local, Peer: id.remote,
	}
	if x, ok := id.conn.(*managed); ok {
		_ = x.do(func(time.Duration) error { // a closed device has none
			o.QP = x.c.LocalQPN()
			return nil
		})
	}
	return o
}
