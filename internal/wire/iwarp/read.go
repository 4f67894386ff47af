package iwarp

import "encoding/binary"

// ReadLen is the length of a Read.
const ReadLen = 28

// A Read is the RDMA Read Request after its Segment (RFC 5040 4.4):
//
//	+---------------------------------------------------------------+
//	|                        Data Sink STag                         |
//	+---------------------------------------------------------------+
//	|                    Data Sink Tagged Offset                    |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                    RDMA Read Message Size                     |
//	+---------------------------------------------------------------+
//	|                       Data Source STag                        |
//	+---------------------------------------------------------------+
//	|                   Data Source Tagged Offset                   |
//	|                                                               |
//	+---------------------------------------------------------------+
type Read struct {
	SinkSTag   uint32
	SinkTO     uint64
	Size       uint32
	SourceSTag uint32
	SourceTO   uint64
}

// Parse reads the request. It reports whether b has ReadLen bytes.
func (r *Read) Parse(b []byte) bool {
	if len(b) < ReadLen {
		return false
	}
	r.SinkSTag, r.SinkTO = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SourceSTag, r.SourceTO = binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint64(b[20:])
	return true
}

// Put writes the request to b, which has room for it.
func (r *Read) Put(b []byte) {
	binary.BigEndian.PutUint32(b, r.SinkSTag)
	binary.BigEndian.PutUint64(b[4:], r.SinkTO)
	binary.BigEndian.PutUint32(b[12:], r.Size)
	binary.BigEndian.PutUint32(b[16:], r.SourceSTag)
	binary.BigEndian.PutUint64(b[20:], r.SourceTO)
}
