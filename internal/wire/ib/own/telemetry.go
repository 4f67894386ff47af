package own

import "encoding/binary"

const (
	// TelemetryLen is the length of a telemetry's payload without hops, HopLen that of a hop.
	TelemetryLen = 4
	HopLen       = 24

	// MaxHops bounds the hops of one packet, as in the header of HPCC (SIGCOMM 2019).
	MaxHops = 5
)

// The payload of telemetry answers requests with the T bit (see ib.BTH) on networks whose switches
// say how full their links are. BTH and AETH are those of a selective acknowledge without ranges:
// everything up to the PSN was executed, if not yet answered.
//
//	+---------------------------------------------------------------+
//	|                          Duplicates                           |
//	+---------------------------------------------------------------+
//	|                             Time                              |  hops, 1 to 5,
//	|                                                               |  the first switch first
//	+---------------------------------------------------------------+
//	|                             Bytes                             |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             Queue                             |
//	+---------------------------------------------------------------+
//	|                             Rate                              |
//	+---------------------------------------------------------------+
//
// Duplicates is that of a selective acknowledge. The hops are those of the request that arrived last.
//
// Hops have the same format between a port of an Ethernet fabric and the program that gets the request
// there.

// A Hop is what a switch said of the link by which a request left it.
type Hop struct {
	Time  uint64 // nanoseconds, by the clock of the switch
	Bytes uint64 // that the link has carried
	Queue uint32 // bytes that waited
	Rate  uint32 // of the link, in Mbit/s
}

// ParseTelemetry reads the payload of telemetry, and reports whether it is one. HopOf reads the hops.
func ParseTelemetry(payload []byte) (duplicates uint32, hops []byte, ok bool) {
	n := len(payload) - TelemetryLen
	if n < HopLen || n%HopLen != 0 || n > MaxHops*HopLen {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(payload), payload[TelemetryLen:], true
}

// ParseHops reads the hops in b, at most MaxHops, and appends them to list.
func ParseHops(list []Hop, b []byte) []Hop {
	for i := range min(len(b)/HopLen, MaxHops) {
		list = append(list, HopOf(b, i))
	}
	return list
}

// HopOf reads the i-th hop.
func HopOf(hops []byte, i int) Hop {
	b := hops[i*HopLen:]
	return Hop{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])}
}

// Append appends a hop to the payload, which AppendDuplicates begins.
func (h *Hop) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.Time)
	b = binary.BigEndian.AppendUint64(b, h.Bytes)
	b = binary.BigEndian.AppendUint32(b, h.Queue)
	return binary.BigEndian.AppendUint32(b, h.Rate)
}
