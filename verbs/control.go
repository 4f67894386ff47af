package verbs

import (
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/registry"
)

// A controlled is a device as the tools of its user see it (package control).
type controlled struct{ *Device }

// answer lets the process answer for the device. Devices of other stacks, which are simulated hosts
// above all, are not the process's.
func (d *Device) answer() {
	if d.stack.orProcess().reg() == registry.Process && registry.Process.Networks == nil {
		d.unanswer = control.Add(d.controlName(), controlled{d})
	}
}

// controlName is the name by which Open takes the device.
func (d *Device) controlName() string {
	at := d.choice.Addr
	if d.protocol == InfiniBand {
		return d.protocol.prefix() + d.choice.Interface.Name
	}
	if p := at.Port(); d.protocol != RoCE || p == Port {
		return d.protocol.prefix() + at.Addr().String()
	}
	return at.String()
}

// Info implements control.Device.
func (d controlled) Info() control.Info {
	p := d.QueryPort()
	i := control.Info{
		Protocol: d.protocol.String(), Address: d.Addr().String(), Device: d.Name(), State: "down", MTU: p.ActiveMTU,
		GUID: GUID(d.guid).String(), Objects: object.Counts(d.Counts()), Counters: make(map[string]uint64), Time: time.Now(),
	}
	if p.Active {
		i.State = "active"
	}
	if e := registry.Of(d.Device); e != nil {
		unused := e.Unused.Load()
		i.Unused = unused != nil && (*unused)()
	}
	i.Sent, i.Received = d.Traffic()
	for name, n := range d.Counters() {
		i.Counters[name] = n
	}
	return i
}

const (
	sampleMost = 64              // queue pairs of a lane in a sample
	sampleFor  = 5 * time.Minute // measuring continues for so long after the last sample
)

// Sample implements control.Device.
func (d controlled) Sample() object.Sample {
	if t := d.measuring.Swap(time.AfterFunc(sampleFor, d.local.EndLatencies)); t != nil {
		t.Stop()
	}
	return object.Sample{Connections: d.local.Measure(nil, sampleMost), Latencies: d.local.Latencies(nil)}
}

// Follow implements control.Device.
func (d controlled) Follow() control.Follower { return adapter.Follow(d.local) }

// Objects implements control.Device.
func (d controlled) Objects() object.List {
	if e := registry.Of(d.Device); e != nil {
		return e.List()
	}
	return adapter.ObjectsOf(d.local) // of a device that closes
}
