package mad

import (
	"fmt"

	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumCMAttribute, func(n uint64) string { return AttributeID(n).String() })
	reason.Name(reason.NumCMTransport, func(n uint64) string { return TransportType(n).String() })
	reason.Name(reason.NumCMReject, func(n uint64) string { return fmt.Sprintf("%d (%v)", n, RejectReason(n)) })
	reason.Name(reason.NumSIDRStatus, func(n uint64) string { return fmt.Sprintf("%d (%v)", n, SIDRStatus(n)) })
}

var transportNames = [...]string{TransportRC: "RC", TransportUC: "UC", TransportRD: "RD", TransportExtended: "extended"}

// String returns the usual name.
func (t TransportType) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return fmt.Sprintf("transport type %d", uint8(t))
}
