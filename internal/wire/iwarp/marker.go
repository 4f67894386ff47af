package iwarp

import "encoding/binary"

// Markers stand in the stream at each multiple of MarkerSpacing bytes from the
// first FPDU on, the first in front of it (RFC 5044 4.3).
const (
	MarkerLen     = 4
	MarkerSpacing = 512
)

// PutMarker writes a marker (RFC 5044 4.2):
//
//	+-------------------------------+-------------------------------+
//	|           Reserved            |            FPDUPTR            |
//	+-------------------------------+-------------------------------+
//
// FPDUPTR is the distance back to the length field of the FPDU that the marker
// is in, in bytes of the stream; 0 if the marker precedes that FPDU.
func PutMarker(b []byte, fpduPtr uint16) { binary.BigEndian.PutUint32(b, uint32(fpduPtr)) }

// Marker reads a marker's FPDUPTR. Its two lowest bits count as zero whatever they
// are, and the reserved field for nothing.
func Marker(b []byte) uint16 { return binary.BigEndian.Uint16(b[2:]) &^ 3 }
