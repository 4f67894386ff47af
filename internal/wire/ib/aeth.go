package ib

import (
	"encoding/binary"
	"fmt"
	"time"

	"softrdma/internal/psn"
)

// An AETH is the acknowledge extended transport header (IBTA 9.3.5).
//
//	+---------------+-----------------------------------------------+
//	|   Syndrome    |            Message Sequence Number            |
//	+---------------+-----------------------------------------------+
type AETH struct {
	Syndrome Syndrome
	MSN      psn.PSN
}

func (h *AETH) parse(b []byte) {
	v := binary.BigEndian.Uint32(b)
	h.Syndrome = Syndrome(v >> 24)
	h.MSN = psn.New(v)
}

func (h *AETH) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|uint32(h.MSN))
}

// A Syndrome says whether an acknowledge is positive, and why not (IBTA 9.7.5.2,
// tables 44 to 46): bits 6-5 choose, bits 4-0 are credits, timer or code.
type Syndrome uint8

// Positive acknowledge and the NAK codes.
const (
	ACK                  Syndrome = 0x00     // credits in the low five bits
	ACKNoCredits         Syndrome = 0x1f     // credits not in use
	RNRNAK               Syndrome = 0x20     // timer field in the low five bits
	NAKSequence          Syndrome = 0x60 | 0 // PSN sequence error
	NAKInvalidRequest    Syndrome = 0x60 | 1 // invalid request
	NAKRemoteAccess      Syndrome = 0x60 | 2 // remote access error
	NAKRemoteOperational Syndrome = 0x60 | 3 // remote operational error
	NAKInvalidRDRequest  Syndrome = 0x60 | 4 // invalid RD request
)

// IsACK reports whether the syndrome is a positive acknowledge.
func (s Syndrome) IsACK() bool { return s&0xe0 == 0 }

// IsRNR reports whether the syndrome is a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&0xe0 == RNRNAK }

// IsNAK reports whether the syndrome is a NAK other than RNR.
func (s Syndrome) IsNAK() bool { return s&0xe0 == 0x60 }

// Credits returns the positive acknowledge with n credits, rounded down to a count that
// the encoding has (IBTA 9.7.7.2.4, table 46).
func Credits(n int) Syndrome {
	code := Syndrome(len(creditCounts) - 1)
	for int(creditCounts[code]) > n && code > 0 {
		code--
	}
	return ACK | code
}

// Credits returns the number of credits of a positive acknowledge, and false where
// credits are not in use.
func (s Syndrome) Credits() (n uint32, ok bool) {
	if code := s & 0x1f; s.IsACK() && code != ACKNoCredits {
		return creditCounts[code], true
	}
	return 0, false
}

// IBTA 9.7.7.2.4, table 46.
var creditCounts = [...]uint32{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
	768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768}

// RNRTimer returns the time that the low five bits ask the requester to wait.
func (s Syndrome) RNRTimer() time.Duration { return RNRTimer(uint8(s & 0x1f)) }

// RNRTimer decodes a five-bit RNR NAK timer field (IBTA 9.7.5.2.8,
// table 45).
func RNRTimer(field uint8) time.Duration { return rnrTimers[field&0x1f] }

// IBTA 9.7.5.2.8, table 45, in units of 10 µs.
var rnrTimers = func() (d [32]time.Duration) {
	for i, v := range [32]int{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
		768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152} {
		d[i] = time.Duration(v) * 10 * time.Microsecond
	}
	return d
}()

// String names the syndrome as the specification does.
func (s Syndrome) String() string {
	switch {
	case s.IsACK():
		return "ACK"
	case s.IsRNR():
		return fmt.Sprintf("RNR NAK (%v)", s.RNRTimer())
	}
	switch s {
	case NAKSequence:
		return "NAK PSN Sequence Error"
	case NAKInvalidRequest:
		return "NAK Invalid Request"
	case NAKRemoteAccess:
		return "NAK Remote Access Error"
	case NAKRemoteOperational:
		return "NAK Remote Operational Error"
	case NAKInvalidRDRequest:
		return "NAK Invalid RD Request"
	}
	return fmt.Sprintf("syndrome 0x%02x (reserved)", uint8(s))
}
