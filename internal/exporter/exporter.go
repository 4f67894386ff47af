// Package exporter shows what devices count as metrics of Prometheus: bytes, packets, refusals by their
// reasons, objects, and what connections measure on their paths.
//
// It counts nothing itself. It reads the counters that devices have anyway, when it is asked. While it is
// asked, it also looks from time to time what connections have measured. It never shows a queue pair by
// its number, because programs make any number of them.
package exporter

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"softrdma/internal/object"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/trace"
	"softrdma/verbs"
)

// Programs returns what the programs that share a device's address have counted. The name is that by which
// they know the device, "" if there are none.
type Programs func(d *verbs.Device) Counted

// A Counted is what the programs that share a device's address have counted.
type Counted struct {
	Name    string
	Reasons map[reason.Reason]uint64
	Traffic trace.Traffic
	Objects func() object.Counts   // asks them how many objects they have
	Samples func() []object.Sample // asks them what they have measured of late
}

// An Exporter is a prometheus.Collector. Its methods may be called at any time.
type Exporter struct {
	only []*verbs.Device // nil for all open devices of the process

	mu       sync.Mutex
	programs Programs
	samples  samples
}

var _ prometheus.Collector = (*Exporter)(nil)

// New returns an exporter of some devices, or without any of all devices that are open in the process
// when it is asked.
func New(devices ...*verbs.Device) *Exporter { return &Exporter{only: devices} }

// SetPrograms adds what programs of other processes have counted on the devices.
func (x *Exporter) SetPrograms(p Programs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.programs = p
}

// device is an open device, and by what its metrics are told from those of others.
type device struct {
	verbs *verbs.Device
	entry *registry.Entry
	labels
	programs Counted
}

// labels are values of deviceLabels.
type labels struct{ name, address string }

var deviceLabels = []string{"device", "address"}

// devices returns the devices that are open now, in the order of their names and addresses.
func (x *Exporter) devices() (list []*device) {
	x.mu.Lock()
	programs := x.programs
	x.mu.Unlock()
	var entries []*registry.Entry
	for _, d := range x.only {
		if e := registry.Of(d); e != nil {
			entries = append(entries, e)
		}
	}
	if len(x.only) == 0 {
		entries = registry.All()
	}
	for _, e := range entries {
		v, ok := e.Handle.(*verbs.Device)
		if !ok {
			continue
		}
		d := &device{verbs: v, entry: e, labels: labels{v.Name(), addressOf(v)}}
		if programs != nil {
			if d.programs = programs(v); d.programs.Name != "" {
				d.name = d.programs.Name
			}
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b *device) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.address, b.address), cmp.Compare(a.verbs.Query().NodeGUID.String(), b.verbs.Query().NodeGUID.String()))
	})
	return distinct(list)
}

// distinct gives devices that share an address distinct labels.
func distinct(list []*device) []*device {
	seen := make(map[labels]int)
	for _, d := range list {
		of := d.labels
		if seen[of]++; seen[of] > 1 {
			d.name = fmt.Sprintf("%s#%d", d.name, seen[of])
		}
	}
	return list
}

// addressOf returns the address of a device, with its port unless that is the standard's.
func addressOf(d *verbs.Device) string {
	at := d.Addr()
	if d.Protocol() != verbs.RoCE || at.Port() == verbs.Port {
		return at.Addr().String()
	}
	return at.String()
}
