package sealed

import (
	"bytes"
	"slices"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

const (
	// maxEarly bounds the packets that a link holds, and maxEarlyOfKey those with one key. They replace the oldest ones.
	maxEarly      = 64
	maxEarlyOfKey = 4
)

// An early holds packets, in order of arrival, of peers that have called but not yet proved who they are. A peer sends
// its proof and its first packets at the same time, to different ports. They are opened when the peer is admitted, and refused if
// it is not.
type early struct{ packets []earlyPacket }

type earlyPacket struct {
	in *inbound
	rx link.Rx
}

// hold keeps a copy of a packet that came with others. It returns the reason if another one is given up for it.
func (q *early) hold(in *inbound, from *link.Rx, b []byte) (why reason.Detail) {
	oldest, same := 0, 0
	for i := range q.packets {
		if q.packets[i].in == in {
			if same++; same == 1 {
				oldest = i
			}
		}
	}
	most := maxEarly
	if same >= maxEarlyOfKey {
		most = maxEarlyOfKey
	} else {
		oldest = 0
	}
	if most == maxEarlyOfKey || len(q.packets) >= maxEarly {
		q.packets = slices.Delete(q.packets, oldest, oldest+1)
		why = reason.Detail{Reason: reason.PSPEarly, Expected: uint64(most), Found: uint64(most + 1)}
	}
	rx := *from
	rx.Data, rx.Size = bytes.Clone(b), len(b)
	q.packets = append(q.packets, earlyPacket{in, rx})
	return why
}

// next removes a packet whose key counts by now, or never will, and reports whether there is one.
func (q *early) next(rx *link.Rx) bool {
	for i, p := range q.packets {
		if p.in.accepted.Load() || p.in.revoked.Load() {
			*rx = p.rx
			q.packets = slices.Delete(q.packets, i, i+1)
			return true
		}
	}
	return false
}
