package agent

import (
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// NodeInfo returns what a Get of NodeInfo at a port answers.
func (s *settings) NodeInfo(port int) smp.NodeInfo {
	return smp.NodeInfo{
		BaseVersion: mad.BaseVersion, ClassVersion: smp.ClassVersion,
		Type: s.config.Type, NumPorts: uint8(s.config.NumPorts),
		SystemImageGUID: s.config.SystemImageGUID, NodeGUID: s.config.NodeGUID, PortGUID: s.portGUID(port),
		PartitionCap: uint16(s.config.Partitions), DeviceID: s.config.DeviceID, Revision: s.config.Revision,
		LocalPort: uint8(port), VendorID: s.config.VendorID,
	}
}

// PortInfo returns what a Get of PortInfo at a port answers, without the M_Key.
func (s *settings) PortInfo(port int) smp.PortInfo {
	info := s.portInfo(port)
	info.LocalPort, info.MKey = uint8(port), 0
	return info
}

// GUIDs returns a copy of the GUID table of an end port.
func (s *settings) GUIDs(port int) []uint64 {
	return append([]uint64(nil), s.ends[s.endPort(port)].guids...)
}
