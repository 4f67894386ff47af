package uapi

import "unsafe"

// Protocol is the version of the messages.
const Protocol = 7

// The calls on device files.
const (
	OpOpen  = 1
	OpIoctl = 2
	OpWrite = 3
	OpRead  = 4
	OpMmap  = 5
	OpHello = 6 // asks whether a program would be served
	OpClose = 7 // ends the file at once, and not when its last descriptor is closed

	OpNetlink = 8 // opens a socket of RDMA's netlink
	OpSlot    = 9 // asks for a share of a device's address, see Slot

	OpCounters = 10 // brings the counters of the sysfs tree up to date

	// OpTell, added to a call, asks for the text of its refusal behind the reply.
	OpTell = 1 << 31
)

// MaxText bounds that text, in bytes.
const MaxText = 1024

// Request is what a program sends: one message of a SOCK_SEQPACKET socket,
// with up to MaxData bytes behind it.
type Request struct {
	Version, Op uint32
	File        uint64
	Arg         [4]uint64
}

const (
	RequestLen = int(unsafe.Sizeof(Request{}))
	MaxData    = 320 // a management datagram with its header
	MaxFDs     = 4   // of a reply
)

// Place is where in the program's memory the number of a descriptor is stored.
type Place struct {
	Addr         uint64
	Width, Flags uint32
	Kind, _      uint32
}

// The kinds of event descriptors. When the server is gone, the library reports that to
// readers of KindAsync.
const (
	KindAsync   = 2
	KindChannel = 3
)

// ReplyWait asks the library to call again when the file is readable.
const ReplyWait = 1

// ReplyCollapse asks the library to turn memory of the program, Rdev bytes from the
// address Offset, into huge pages (MADV_COLLAPSE), which may fail.
const ReplyCollapse = 2

// ReplySocket says that the descriptor of the file is a SOCK_SEQPACKET socket, from which
// the library reads. A record of 1 byte says that the program is to read by OpRead.
const ReplySocket = 4

// Reply is the answer, with up to MaxFDs descriptors. In a refusal whose text was
// asked for (OpTell) File is the number of the named reason, or 0 if there is none, Rdev what
// it expected and Offset what it found.
type Reply struct {
	Result        int64
	File          uint64
	Rdev          uint64
	Offset        uint64
	Flags, Places uint32
	Place         [MaxFDs]Place
}
