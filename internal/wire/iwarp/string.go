package iwarp

import "fmt"

var termNames = map[Term]string{
	TermLocal:                "RDMAP: local catastrophic error",
	TermProtectionSTag:       "RDMAP: invalid STag",
	TermProtectionBounds:     "RDMAP: base or bounds violation",
	TermProtectionAccess:     "RDMAP: access rights violation",
	TermProtectionStream:     "RDMAP: STag not associated with the stream",
	TermProtectionWrap:       "RDMAP: tagged offset wraps",
	TermProtectionInvalidate: "RDMAP: STag cannot be invalidated",
	TermProtectionOther:      "RDMAP: unspecified protection error",
	TermOperationVersion:     "RDMAP: invalid version",
	TermOperationOpcode:      "RDMAP: unexpected opcode",
	TermOperationStream:      "RDMAP: catastrophic error of the stream",
	TermOperationGlobal:      "RDMAP: catastrophic error of the adapter",
	TermOperationInvalidate:  "RDMAP: STag cannot be invalidated",
	TermOperationOther:       "RDMAP: unspecified error",
	TermDDPLocal:             "DDP: local catastrophic error",
	TermTaggedSTag:           "DDP: invalid STag",
	TermTaggedBounds:         "DDP: base or bounds violation",
	TermTaggedStream:         "DDP: STag not associated with the stream",
	TermTaggedWrap:           "DDP: tagged offset wraps",
	TermTaggedVersion:        "DDP: invalid version of a tagged segment",
	TermUntaggedQueue:        "DDP: invalid queue number",
	TermUntaggedBuffer:       "DDP: no buffer for the message",
	TermUntaggedMSN:          "DDP: message sequence number out of range",
	TermUntaggedMO:           "DDP: invalid message offset",
	TermUntaggedLength:       "DDP: message too long for its buffer",
	TermUntaggedVersion:      "DDP: invalid version of an untagged segment",
	TermMPAClosed:            "MPA: TCP connection closed or lost",
	TermMPACRC:               "MPA: wrong CRC",
	TermMPAMarker:            "MPA: marker and ULPDU length do not match",
	TermMPAFrame:             "MPA: invalid request or reply frame",
	TermMPALocal:             "MPA: local catastrophic error",
	TermMPAIRD:               "MPA: insufficient IRD",
	TermMPARTR:               "MPA: no matching ready-to-receive frame",
}

// Terms returns the errors that have names, in no order.
func Terms() []Term {
	all := make([]Term, 0, len(termNames))
	for t := range termNames {
		all = append(all, t)
	}
	return all
}

// String names the error.
func (t Term) String() string {
	if s, ok := termNames[t]; ok {
		return s
	}
	return fmt.Sprintf("layer %d, type %d, code %#02x", t.Layer(), t.Type(), t.Code())
}
