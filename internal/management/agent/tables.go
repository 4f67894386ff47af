package agent

import (
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// partitionBlock returns the port and block that a modifier names, the number of entries
// of the port's table, and reports whether they exist (IBTA 14.2.5.7).
func (a *subnetAgent) partitionBlock(in *Arrival, modifier uint32) (port, block, entries int, ok bool) {
	port, block = int(modifier>>16), int(modifier&0xffff)
	entries = a.config.Partitions
	switch {
	case !a.isSwitch():
		if port != 0 && port != in.Port {
			return 0, 0, 0, false
		}
		port = in.Port
	case port > 0:
		entries = a.config.ExternalPartitions
	}
	return port, block, entries, port <= a.config.NumPorts && block < (entries+31)/32
}

func (a *subnetAgent) getPartitions(in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	port, block, _, ok := a.partitionBlock(in, p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	t := a.node.Partitions(port, block)
	t.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) setPartitions(_ time.Duration, in *Arrival, p *smp.Packet) uint16 {
	port, block, entries, ok := a.partitionBlock(in, p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	var t smp.PKeyTable
	t.Parse(&p.Data)
	for i := entries - 32*block; i < len(t); i++ { // the table ends inside of the block
		t[i] = 0
	}
	a.node.SetPartitions(port, block, &t)
	if !a.isSwitch() || port == 0 {
		a.notify(port, PartitionsChanged)
	}
	return mad.StatusOK
}

// lanes returns the ports that a modifier of the SL to VL mapping names, and
// reports whether they exist (IBTA 14.2.5.8).
func (a *subnetAgent) lanes(in *Arrival, modifier uint32) (from, to int, ok bool) {
	from, to = int(modifier>>8), int(modifier&0xff)
	if !a.isSwitch() {
		return in.Port, in.Port, modifier == 0 || from == 0 && to == in.Port
	}
	return from, to, from <= a.config.NumPorts && to <= a.config.NumPorts && (to > 0 || a.config.EnhancedPort0)
}

func (a *subnetAgent) getSLtoVL(in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	from, to, ok := a.lanes(in, p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	t := a.node.SLtoVL(from, to)
	t.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) setSLtoVL(_ time.Duration, in *Arrival, p *smp.Packet) uint16 {
	from, to, ok := a.lanes(in, p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	var t smp.SLtoVL
	t.Parse(&p.Data)
	a.node.SetSLtoVL(from, to, &t)
	return mad.StatusOK
}

// arbitration returns the port and the half that a modifier names, and how many
// entries of it the port has; none if it does not exist (IBTA 14.2.5.9).
func (a *subnetAgent) arbitration(in *Arrival, modifier uint32) (port, half, entries int) {
	half, port = int(modifier>>16), int(modifier&0xffff)
	switch {
	case !a.isSwitch() && (port == 0 || port == in.Port):
		port = in.Port
	case !a.isSwitch(), port > a.config.NumPorts, port == 0 && !a.config.EnhancedPort0:
		return 0, 0, 0
	}
	switch half {
	case smp.ArbitrationLow, smp.ArbitrationHigh:
		return port, half, min(int(a.config.Arbitration), 32)
	case smp.ArbitrationLowUpper, smp.ArbitrationHighUpper:
		return port, half, max(int(a.config.Arbitration)-32, 0)
	}
	return 0, 0, 0
}

func (a *subnetAgent) getArbitration(in *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	port, half, entries := a.arbitration(in, p.Modifier)
	if entries == 0 {
		return mad.StatusInvalid
	}
	t := a.node.Arbitration(port, half)
	t.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) setArbitration(_ time.Duration, in *Arrival, p *smp.Packet) uint16 {
	port, half, entries := a.arbitration(in, p.Modifier)
	if entries == 0 {
		return mad.StatusInvalid
	}
	var t smp.VLArbitration
	t.Parse(&p.Data)
	for i := entries; i < len(t); i++ {
		t[i] = smp.Weight{}
	}
	a.node.SetArbitration(port, half, &t)
	return mad.StatusOK
}

func (a *subnetAgent) getForwarding(_ *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	if p.Modifier >= (uint32(a.sw.LinearCap)+63)/64 {
		return mad.StatusInvalid
	}
	t := a.node.Forwarding(int(p.Modifier))
	t.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) setForwarding(_ time.Duration, _ *Arrival, p *smp.Packet) uint16 {
	if p.Modifier >= (uint32(a.sw.LinearCap)+63)/64 {
		return mad.StatusInvalid
	}
	var t smp.LinearForwarding
	t.Parse(&p.Data)
	a.node.SetForwarding(int(p.Modifier), &t)
	return mad.StatusOK
}

// multicastBlock returns the block and position that a modifier names, and
// reports whether they exist (IBTA 14.2.5.12).
func (a *subnetAgent) multicastBlock(modifier uint32) (block, position int, ok bool) {
	block, position = int(modifier&0x0fffffff), int(modifier>>28)
	return block, position, block < (int(a.sw.MulticastCap)+31)/32 && 16*position <= a.config.NumPorts
}

func (a *subnetAgent) getMulticast(_ *Arrival, p *smp.Packet, data *[smp.DataLen]byte) uint16 {
	block, position, ok := a.multicastBlock(p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	t := a.node.Multicast(block, position)
	t.Put(data)
	return mad.StatusOK
}

func (a *subnetAgent) setMulticast(_ time.Duration, _ *Arrival, p *smp.Packet) uint16 {
	block, position, ok := a.multicastBlock(p.Modifier)
	if !ok {
		return mad.StatusInvalid
	}
	var t smp.MulticastForwarding
	t.Parse(&p.Data)
	a.node.SetMulticast(block, position, &t)
	return mad.StatusOK
}
