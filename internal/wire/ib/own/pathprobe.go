package own

import "encoding/binary"

// PathProbeLen is the length of what a path probe's payload begins with.
const PathProbeLen = 12

// A ProbeKind says what a PathProbe is for.
type ProbeKind uint8

// The kinds of path probes.
const (
	Probe   ProbeKind = 1 // is as long as a packet of the path MTU that it names, and is answered
	Answer  ProbeKind = 2 // is short, and answers a Probe with its token and path MTU
	Missing ProbeKind = 3 // asks the peer to probe, because its answers of the path MTU do not arrive
)

// String says what such a packet does, before the path MTU that it is about.
func (k ProbeKind) String() string {
	switch k {
	case Probe:
		return "probe of whether packets pass that are as long as those of"
	case Answer:
		return "answer to a probe of"
	case Missing:
		return "message that packets do not arrive that are as long as those of"
	}
	return "unknown probe"
}

// A PathProbe is the payload of the packets by which two ends find out what their path carries (RFC 8899).
//
//	+---------------+-----------------------------------------------+
//	|     Kind      |                   Reserved                    |
//	+---------------+-----------------------------------------------+
//	|                             Token                             |
//	+---------------------------------------------------------------+
//	|                           Path MTU                            |
//	+---------------------------------------------------------------+
//	|                    zeros up to the length                     |
//
// The token of an answer proves that its sender saw the probe.
type PathProbe struct {
	Kind  ProbeKind
	Token uint32
	MTU   uint32
}

// ParsePathProbe reads the payload of a path probe, and reports whether it is one.
func ParsePathProbe(payload []byte) (p PathProbe, ok bool) {
	if len(payload) < PathProbeLen {
		return PathProbe{}, false
	}
	p = PathProbe{Kind: ProbeKind(payload[0]), Token: binary.BigEndian.Uint32(payload[4:]), MTU: binary.BigEndian.Uint32(payload[8:])}
	return p, p.Kind >= Probe && p.Kind <= Missing
}

// Append appends the payload, without the zeros.
func (p *PathProbe) Append(b []byte) []byte {
	b = append(b, uint8(p.Kind), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, p.Token)
	return binary.BigEndian.AppendUint32(b, p.MTU)
}
