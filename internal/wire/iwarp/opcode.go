package iwarp

import "fmt"

// An Opcode is an RDMAP message's type: 4 bits (RFC 5040 4.1, RFC 7306 4.1).
type Opcode uint8

// The opcodes. Those from Immediate on are extensions of RFC 7306.
const (
	Write Opcode = iota
	ReadRequest
	ReadResponse
	Send
	SendInvalidate
	SendSE
	SendSEInvalidate
	Terminate
	Immediate
	ImmediateSE
	AtomicRequest
	AtomicResponse

	Opcodes // how many there are
)

// The queue numbers of untagged segments (RFC 5040 4.1, RFC 7306 4.1).
const (
	QueueSend           = 0
	QueueRead           = 1 // RDMA Read and Atomic Requests
	QueueTerminate      = 2
	QueueAtomicResponse = 3

	Queues = 4 // with the extensions; 3 without
)

// Info is a row of the table of opcodes.
type Info struct {
	Name       string
	Tagged     bool
	Queue      uint32 // of an untagged segment
	Fixed      int    // bytes from the ULPDU length on before the payload
	Control    bool   // has no payload: the fixed part, or a Terminate, is all
	Solicited  bool   // asks for a solicited event
	Invalidate bool   // names an STag to invalidate
	Extension  bool   // of RFC 7306
}

var opcodes = [Opcodes]Info{
	Write:            {Name: "RDMA Write", Tagged: true, Fixed: TaggedLen},
	ReadRequest:      {Name: "RDMA Read Request", Queue: QueueRead, Fixed: UntaggedLen + ReadLen, Control: true},
	ReadResponse:     {Name: "RDMA Read Response", Tagged: true, Fixed: TaggedLen},
	Send:             {Name: "Send", Fixed: UntaggedLen},
	SendInvalidate:   {Name: "Send with Invalidate", Fixed: UntaggedLen, Invalidate: true},
	SendSE:           {Name: "Send with Solicited Event", Fixed: UntaggedLen, Solicited: true},
	SendSEInvalidate: {Name: "Send with Solicited Event and Invalidate", Fixed: UntaggedLen, Solicited: true, Invalidate: true},
	Terminate:        {Name: "Terminate", Queue: QueueTerminate, Fixed: UntaggedLen + termControlLen, Control: true},
	Immediate:        {Name: "Immediate Data", Fixed: UntaggedLen + ImmediateLen, Control: true, Extension: true},
	ImmediateSE:      {Name: "Immediate Data with Solicited Event", Fixed: UntaggedLen + ImmediateLen, Control: true, Solicited: true, Extension: true},
	AtomicRequest:    {Name: "Atomic Request", Queue: QueueRead, Fixed: UntaggedLen + AtomicLen, Control: true, Extension: true},
	AtomicResponse:   {Name: "Atomic Response", Queue: QueueAtomicResponse, Fixed: UntaggedLen + AtomicValueLen, Control: true, Extension: true},
}

// Info returns the row of an opcode, nil for one that is not in the table.
func (o Opcode) Info() *Info {
	if o >= Opcodes {
		return nil
	}
	return &opcodes[o]
}

// String returns the specification's name.
func (o Opcode) String() string {
	if i := o.Info(); i != nil {
		return i.Name
	}
	return fmt.Sprintf("opcode %#x", uint8(o))
}
