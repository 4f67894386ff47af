package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"

	"softrdma/verbs"
)

// A destination tells the peer about a queue pair. On the wire it is 51 characters
// LID:QPN:PSN:GID in hexadecimal and a zero byte.
//
// Ports of an InfiniBand fabric have a LID. RoCE does not use LIDs, so the field is 0. A device on another UDP port than 4791
// sends the port in it. Only softrdma understands that, and only softrdma can send to
// such a port.
type destination struct {
	lid uint16
	qpn uint32
	psn uint32
	gid verbs.GID
}

// destinationLen is the length of the message with its zero byte.
const destinationLen = len("0000:000000:000000:00000000000000000000000000000000") + 1

// append appends the message to b.
func (d *destination) append(b []byte) []byte {
	b = fmt.Appendf(b, "%04x:%06x:%06x:%x", d.lid, d.qpn, d.psn, d.gid[:])
	return append(b, 0)
}

// parseDestination parses a message of destinationLen bytes.
func parseDestination(b []byte) (destination, error) {
	var d destination
	fields := bytes.Split(bytes.TrimRight(b, "\x00"), []byte(":"))
	if len(b) != destinationLen || len(fields) != 4 || len(fields[3]) != 2*len(d.gid) {
		return d, fmt.Errorf("expected LID:QPN:PSN:GID in %d characters, found %.60q", destinationLen-1, b)
	}
	var n [3]uint64
	for i, bits := range [3]int{16, 24, 24} {
		v, err := strconv.ParseUint(string(fields[i]), 16, bits)
		if err != nil {
			return d, fmt.Errorf("expected %d bits in hexadecimal for the %s, found %.60q", bits, [3]string{"LID", "QPN", "PSN"}[i], fields[i])
		}
		n[i] = v
	}
	if _, err := hex.Decode(d.gid[:], fields[3]); err != nil {
		return d, fmt.Errorf("expected the GID in hexadecimal, found %q", fields[3])
	}
	d.lid, d.qpn, d.psn = uint16(n[0]), uint32(n[1]), uint32(n[2])
	return d, nil
}

// line formats the destination as the ibv_*_pingpong programs print it. sep stands
// before the GID.
func (d *destination) line(side, sep string) string {
	return fmt.Sprintf("  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %v", side+" address:", d.lid, d.qpn, d.psn, sep, d.gid)
}

// check refuses destinations that no device has: of RoCE, or of a fabric.
func (d *destination) check(fabric bool) error {
	switch {
	case fabric && d.lid == 0:
		return fmt.Errorf("the peer sent LID 0: its device is no port of an InfiniBand fabric, or no subnet manager has set it up")
	case d.qpn < 2:
		return fmt.Errorf("the peer sent the address of queue pair %d: do both sides have the same -q?", d.qpn)
	case !fabric && d.gid == verbs.GID{}:
		return fmt.Errorf("the peer sent no GID: ibv_*_pingpong needs -g INDEX with the index of a RoCE v2 GID of its device (see: ibv_devinfo -v, show_gids)")
	}
	return nil
}

// path returns the address vector of the destination. The service level becomes the
// class selector of the same number, which RoCE v2 routers look at.
func (d *destination) path(gidIndex, sl int) verbs.AddressVector {
	return verbs.AddressVector{DGID: d.gid, SGIDIndex: uint8(gidIndex), TrafficClass: uint8(sl) << 5, UDPPort: d.lid}
}

// fabricPath is path on an InfiniBand fabric. Without a GID packets have no GRH.
func (d *destination) fabricPath(gidIndex, sl int) verbs.AddressVector {
	return verbs.AddressVector{DLID: d.lid, DGID: d.gid, SGIDIndex: uint8(gidIndex), ServiceLevel: uint8(sl)}
}
