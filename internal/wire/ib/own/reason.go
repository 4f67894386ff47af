package own

import "encoding/binary"

const (
	// ReasonLen is the length of the payload of a reason, MaxReasonLen that of the longest one
	// which is accepted.
	ReasonLen    = 20
	MaxReasonLen = 64
)

// A Reason is the payload of the packet that says why its sender is about to refuse a request.
// BTH and AETH are those of the NAK that follows.
//
//	+---------------------------------------------------------------+
//	|                       Number of the reason                    |
//	+---------------------------------------------------------------+
//	|                           Expected                            |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             Found                             |
//	|                                                               |
//	+---------------------------------------------------------------+
//
// Later versions may have more behind it, which is ignored.
type Reason struct {
	Number          uint32 // a reason.Reason; later versions have more of them
	Expected, Found uint64
}

// ParseReason reads the payload of a reason, and reports whether it is one.
func ParseReason(payload []byte) (r Reason, ok bool) {
	if len(payload) < ReasonLen || len(payload) > MaxReasonLen {
		return Reason{}, false
	}
	return Reason{
		Number:   binary.BigEndian.Uint32(payload),
		Expected: binary.BigEndian.Uint64(payload[4:]),
		Found:    binary.BigEndian.Uint64(payload[12:]),
	}, true
}

// InfoLen is the length of a reason in the additional information of a REJ, or in private data.
const InfoLen = 4 + ReasonLen

// infoTag begins the additional information of a REJ that has a reason: "softrdma" in short.
const infoTag = 0x53527265

// ParseInfo reads a reason off the additional information of a consumer's REJ, whose format the
// standard leaves to the two ends (IBTA 12.6.7.2). It reports whether there is one.
func ParseInfo(info []byte) (r Reason, ok bool) {
	if len(info) < 4 || binary.BigEndian.Uint32(info) != infoTag {
		return Reason{}, false
	}
	return ParseReason(info[4:])
}

// AppendInfo appends the additional information of a REJ.
func (r *Reason) AppendInfo(b []byte) []byte {
	return r.Append(binary.BigEndian.AppendUint32(b, infoTag))
}

// Append appends the payload.
func (r *Reason) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.Number)
	b = binary.BigEndian.AppendUint64(b, r.Expected)
	return binary.BigEndian.AppendUint64(b, r.Found)
}
