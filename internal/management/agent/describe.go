package agent

import (
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// NodeInfo returns what a Get of NodeInfo at a port answers.
func (a *Agent) NodeInfo(port int) smp.NodeInfo {
	return smp.NodeInfo{
		BaseVersion: mad.BaseVersion, ClassVersion: smp.ClassVersion,
		Type: a.config.Type, NumPorts: uint8(a.config.NumPorts),
		SystemImageGUID: a.config.SystemImageGUID, NodeGUID: a.config.NodeGUID, PortGUID: a.portGUID(port),
		PartitionCap: uint16(a.config.Partitions), DeviceID: a.config.DeviceID, Revision: a.config.Revision,
		LocalPort: uint8(port), VendorID: a.config.VendorID,
	}
}

// PortInfo returns what a Get of PortInfo at a port answers, without the M_Key.
func (a *Agent) PortInfo(port int) smp.PortInfo {
	info := a.portInfo(port)
	info.LocalPort, info.MKey = uint8(port), 0
	return info
}

// GUIDs returns a copy of the GUID table of an end port.
func (a *Agent) GUIDs(port int) []uint64 {
	return append([]uint64(nil), a.ends[a.endPort(port)].guids...)
}
