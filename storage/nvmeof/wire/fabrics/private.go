package fabrics

import (
	"fmt"

	"softrdma/storage/nvmeof/wire/format"
)

// Port is the IP port of NVMe over RDMA.
const Port = 4420

// Lengths of private data in bytes.
const (
	RequestLen = 32
	ReplyLen   = 32
	RejectLen  = 4
)

// A Request is the private data by which a host asks for a queue (RDMA transport 1.0, figure
// "RDMA_CM_REQUEST Private Data Format").
type Request struct {
	Format         uint16 // 0
	Queue          uint16 // 0 is the admin queue
	HostReceives   uint16 // entries of the host's receive queue
	HostSends      uint16 // entries of the host's send queue, less one
	ControllerHint uint16 // controller identifier, 0 in requests of transport 1.0
}

// ParseRequest parses private data, which may be padded.
func ParseRequest(b []byte) (Request, error) {
	if err := format.Needs(b, RequestLen, "connection request"); err != nil {
		return Request{}, err
	}
	r := Request{le.Uint16(b), le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:])}
	if r.Format != 0 {
		return r, format.Wrong("connection request", "record format", 0, uint64(r.Format))
	}
	return r, nil
}

// Append appends the 32 bytes of the request.
func (r Request) Append(b []byte) []byte {
	b, p := format.Grow(b, RequestLen)
	le.PutUint16(p, r.Format)
	le.PutUint16(p[2:], r.Queue)
	le.PutUint16(p[4:], r.HostReceives)
	le.PutUint16(p[6:], r.HostSends)
	le.PutUint16(p[8:], r.ControllerHint)
	return b
}

// A Reply is the private data with which a controller accepts a queue.
type Reply struct {
	Format   uint16 // 0
	Receives uint16 // entries of the controller's receive queue
}

// ParseReply parses private data, which may be padded.
func ParseReply(b []byte) (Reply, error) {
	if err := format.Needs(b, ReplyLen, "connection reply"); err != nil {
		return Reply{}, err
	}
	r := Reply{le.Uint16(b), le.Uint16(b[2:])}
	if r.Format != 0 {
		return r, format.Wrong("connection reply", "record format", 0, uint64(r.Format))
	}
	return r, nil
}

// Append appends the 32 bytes of the reply.
func (r Reply) Append(b []byte) []byte {
	b, p := format.Grow(b, ReplyLen)
	le.PutUint16(p, r.Format)
	le.PutUint16(p[2:], r.Receives)
	return b
}

// A Reject is why a controller rejects the connection of a queue.
type Reject uint16

// The statuses of rejections. The names are Linux's.
const (
	RejectLength      Reject = 1 + iota // the private data is too short
	RejectFormat                        // unknown record format
	RejectQueue                         // unknown queue
	RejectHostSends                     // the host's send queue has a wrong size
	RejectHostReceive                   // the host's receive queue has a wrong size
	RejectResources                     // no resources
	RejectReads                         // not enough RDMA READs in flight at the host (IRD)
	RejectInitiator                     // the host asks for RDMA READs (ORD) that it cannot have
)

var rejectNames = [...]struct{ name, text string }{
	RejectLength:      {"NVME_RDMA_CM_INVALID_LEN", "the private data is too short"},
	RejectFormat:      {"NVME_RDMA_CM_INVALID_RECFMT", "unknown record format"},
	RejectQueue:       {"NVME_RDMA_CM_INVALID_QID", "unknown queue"},
	RejectHostSends:   {"NVME_RDMA_CM_INVALID_HSQSIZE", "wrong size of the host's send queue"},
	RejectHostReceive: {"NVME_RDMA_CM_INVALID_HRQSIZE", "wrong size of the host's receive queue"},
	RejectResources:   {"NVME_RDMA_CM_NO_RSC", "no resources"},
	RejectReads:       {"NVME_RDMA_CM_INVALID_IRD", "the host allows too few RDMA READs"},
	RejectInitiator:   {"NVME_RDMA_CM_INVALID_ORD", "the host asks for too many RDMA READs"},
}

// Rejects returns all statuses of rejections.
func Rejects() (all []Reject) {
	for r := RejectLength; int(r) < len(rejectNames); r++ {
		all = append(all, r)
	}
	return all
}

// String returns the status's name in Linux.
func (r Reject) String() string {
	if r == 0 || int(r) >= len(rejectNames) {
		return fmt.Sprintf("Reject(%d)", uint16(r))
	}
	return rejectNames[r].name
}

// Text returns what the status means.
func (r Reject) Text() string {
	if r == 0 || int(r) >= len(rejectNames) {
		return "an unknown status"
	}
	return rejectNames[r].text
}

// ParseReject parses private data, which may be padded.
func ParseReject(b []byte) (Reject, error) {
	if err := format.Needs(b, RejectLen, "rejection"); err != nil {
		return 0, err
	}
	if f := le.Uint16(b); f != 0 {
		return 0, format.Wrong("rejection", "record format", 0, uint64(f))
	}
	return Reject(le.Uint16(b[2:])), nil
}

// Append appends the 4 bytes of the rejection.
func (r Reject) Append(b []byte) []byte {
	b, p := format.Grow(b, RejectLen)
	le.PutUint16(p[2:], uint16(r))
	return b
}
