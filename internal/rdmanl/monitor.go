package rdmanl

// The types of events that are reported (rdma_nl_notify_event_type).
const (
	EventUnregister   = 1
	EventNetdevDetach = 3
)

// Removed returns the notifications that all devices and their network interfaces are gone, which
// "rdma monitor" prints.
func Removed(src Source) (list [][]byte) {
	for i, d := range src.Devices() {
		if p := src.Port(i); p.InfiniBand == nil {
			m := notification(i, &d, EventNetdevDetach)
			m.u32(AttrPortIndex, 1)
			m.u32(AttrNdevIndex, p.InterfaceIndex)
			m.text(AttrNdevName, p.Interface)
			list = append(list, m.bytes())
		}
		list = append(list, notification(i, &d, EventUnregister).bytes())
	}
	return list
}

func notification(index int, d *Device, event uint8) *message {
	m := newMessage(&Header{}, CmdMonitor.Type(), 0)
	m.handle(index, d)
	m.u8(AttrEventType, event)
	return m
}
