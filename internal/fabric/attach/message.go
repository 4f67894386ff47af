package attach

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
	"softrdma/internal/wire/mad"
)

// A Kind says what a message on the socket is.
type Kind = unixmsg.Kind

// Protocol is what programs and fabrics speak.
var Protocol = unixmsg.Protocol{MaxMessage: MaxMessage, MaxDescriptors: 2, Malformed: malformed, Refused: reason.FabricRefused}

// The kinds. A connection begins with Hello, Command, Find or End.
const (
	Hello   Kind = 1 + iota // program: a HelloBody; descriptor: its bell
	Send                    // program: a packet of queue pair 0
	SetSM                   // program: one byte, 1 if a subnet manager runs there
	Command                 // program: a question about the fabric

	Welcome // fabric: an InfoBody; descriptors: the memory of the rings, the fabric's bell
	Refused // fabric: a refusal (unixmsg.Refused), and the end
	Changed // fabric: an InfoBody
	Arrived // fabric: a packet of queue pair 0
	Part    // fabric: a part of the answer to a command
	Last    // fabric: the last part

	Find  // program: 16 bytes, the IP address of a port; it begins a connection
	Found // fabric: 16 bytes, the GID of that port, on Ethernet 6 bytes, its MAC address, and the end

	Violated // program: a Violation
	Member   // program: a Membership

	End // program: asks the fabric to end, which ends the connection; it begins one

	StackEnded // fabric: 16 bytes, the IP address of a host of an Ethernet whose program with TCP has ended
)

// MaxMessage is the length of the longest message.
const MaxMessage = 64 << 10

// Version is that of the messages, and of the memory between a program and its port.
const Version = 6

// A HelloBody asks for a port.
type HelloBody struct {
	Version int
	Node    string
	Port    uint8
	Program string // for people
	Network Network
	Service hostport.Service // what passes, at a port of an Ethernet
	Share   *Share           // nil for the whole port, or for all of the service
}

// A Network is what a fabric is.
type Network string

// The networks.
const (
	InfiniBand Network = ""
	Ethernet   Network = "Ethernet"
)

// String returns the name of the network.
func (n Network) String() string {
	if n == InfiniBand {
		return "InfiniBand"
	}
	return string(n)
}

// Headers is what messages of packets have at a port of the network.
func (n Network) Headers() fabric.Headers {
	if n == Ethernet {
		return fabric.DatagramHeaders
	}
	return fabric.NoHeaders
}

// A Share is what a program has of a port that several programs with one key share: the queue
// pairs of one of its lanes. The program with lane 0 also has queue pairs 0 and 1.
type Share struct {
	Key      []byte // at least MinKey bytes
	Lane, Of int

	// Place is where the fabric is; nil for where this user's fabrics are. It is not sent.
	Place *Place `json:"-"`
}

// A Place is how a program finds a fabric. Programs that share a port find the same fabric by it,
// whatever their environments say.
type Place struct {
	Directory string // of the socket of a fabric on this host
	Secret    []byte // of a fabric on another host; nil if there is none
}

// Limits of a Share.
const (
	MinKey   = 16
	MaxLanes = 256
)

// An InfoBody says what a port is.
type InfoBody struct {
	Info       Info
	Reregister bool // the manager has asked for it since the last message
}

func malformed(expected, found uint64) error {
	return reason.Detail{Reason: reason.FabricMessage, Expected: expected, Found: found}.Err()
}

// AddrMessage returns a message of kind Find or StackEnded.
func AddrMessage(k Kind, ip netip.Addr) []byte {
	b := ip.As16()
	return append([]byte{byte(k)}, b[:]...)
}

// ParseAddr reads the address of a message of kind Find or StackEnded.
func ParseAddr(m []byte) (netip.Addr, error) {
	if len(m) != 1+16 {
		return netip.Addr{}, malformed(1+16, uint64(len(m)))
	}
	return netip.AddrFrom16([16]byte(m[1:])), nil
}

// A FoundBody is the port that has an IP address.
type FoundBody struct {
	GID [16]byte
	MAC [6]byte // on Ethernet
}

// foundLen is the length of a message of kind Found on Ethernet.
const foundLen = 1 + 16 + 6

// Message returns the answer as a message:
//
//	kind (1), GID (16), MAC address (6, only on Ethernet)
func (f *FoundBody) Message() []byte {
	b := append([]byte{byte(Found)}, f.GID[:]...)
	if f.MAC != ([6]byte{}) {
		b = append(b, f.MAC[:]...)
	}
	return b
}

// parse reads a message of kind Found.
func (f *FoundBody) parse(m []byte) error {
	*f = FoundBody{}
	switch len(m) {
	case foundLen:
		f.MAC = [6]byte(m[1+16:])
		fallthrough
	case 1 + 16:
		f.GID = [16]byte(m[1:])
		return nil
	}
	return malformed(foundLen, uint64(len(m)))
}

// The lengths of messages with packets of queue pair 0.
const (
	sendLen    = 1 + 2 + 1 + mad.Len
	arrivedLen = 1 + 2 + 2 + 1 + 4 + mad.Len
)

// Message returns the departure as a message:
//
//	kind (1), DLID (2), SL (1), MAD (256)
func (d *Departure) Message() []byte {
	b := make([]byte, 0, sendLen)
	b = append(b, byte(Send))
	b = binary.BigEndian.AppendUint16(b, d.DLID)
	b = append(b, d.SL)
	return append(b, d.MAD[:]...)
}

// Parse reads a message of kind Send.
func (d *Departure) Parse(b []byte) error {
	if len(b) != sendLen || b[3] > 15 {
		return malformed(sendLen, uint64(len(b)))
	}
	d.DLID, d.SL = binary.BigEndian.Uint16(b[1:]), b[3]
	copy(d.MAD[:], b[4:])
	return nil
}

// Message returns the arrival as a message:
//
//	kind (1), SLID (2), DLID (2), SL (1), source queue pair (4), MAD (256)
func (a *Arrival) Message() []byte {
	b := make([]byte, 0, arrivedLen)
	b = append(b, byte(Arrived))
	b = binary.BigEndian.AppendUint16(b, a.SLID)
	b = binary.BigEndian.AppendUint16(b, a.DLID)
	b = append(b, a.SL)
	b = binary.BigEndian.AppendUint32(b, a.SourceQPN)
	return append(b, a.MAD[:]...)
}

// Parse reads a message of kind Arrived. The MAD stays the message's.
func (a *Arrival) Parse(b []byte) error {
	if len(b) != arrivedLen {
		return malformed(arrivedLen, uint64(len(b)))
	}
	a.SLID, a.DLID = binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint16(b[3:])
	a.SL, a.SourceQPN = b[5], binary.BigEndian.Uint32(b[6:])
	a.MAD = (*[mad.Len]byte)(b[10:])
	return nil
}
