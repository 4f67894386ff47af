package uapi

import "unsafe"

// Protocol is the version of the messages.
const Protocol = 3

// The calls on device files.
const (
	OpOpen  = 1
	OpIoctl = 2
	OpWrite = 3
	OpRead  = 4
	OpMmap  = 5
	OpHello = 6 // of those that start programs: see Ask
	OpClose = 7 // ends the file at once, and not when its last descriptor is closed

	OpNetlink = 8 // opens a socket of RDMA's netlink

	// OpTell beside a call asks for the text of its refusal behind the reply.
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
	MaxData    = 256
	MaxFDs     = 4 // of a reply
)

// Place is where in the program's memory a descriptor's number goes.
type Place struct {
	Addr         uint64
	Width, Flags uint32
	Kind, _      uint32
}

// The kinds of event descriptors: a library whose server is gone tells those
// who read them so.
const (
	KindAsync   = 2
	KindChannel = 3
)

// ReplyWait asks the library to call again when the file is readable.
const ReplyWait = 1

// ReplyCollapse asks the library to have memory of the program, Rdev bytes from
// the address Offset on, made of huge pages (MADV_COLLAPSE), which may fail.
const ReplyCollapse = 2

// ReplyShare tells that nothing was done yet: the library is to put a memfd in
// the place of Rdev bytes of memory from the address Offset on, and to repeat the
// call with what came of it.
const ReplyShare = 4

// ReplyPrivate tells that the share that File names is not used any more: the
// library may give the program private memory again.
const ReplyPrivate = 8

// ReplyBoard tells that the descriptor that comes with the answer to a doorbell
// is of memory whose first word, of 64 bits, the library looks at before it
// writes a doorbell: it need not where that is the sum of the file's number and
// the queue pair's handle.
const ReplyBoard = 16

// What OpWrite tells of sharing memory, in Arg[2]; Arg[3] goes with it.
const (
	ShareOffered = 1 // the library does it where it is asked to
	ShareMemfd   = 2 // the descriptor that comes with the call has the range from Arg[3] on
	ShareKnown   = 3 // the range is of the share Arg[3], the File of an earlier answer
	ShareNot     = 4 // why is in Arg[3], one of Not
)

// Why a program's memory is not shared.
const (
	NotSystem  = 1
	NotThreads = 2
	NotMapping = 3
	NotIO      = 4
)

// Reply is the answer, with up to MaxFDs descriptors. In a refusal whose text was
// asked for (OpTell) File is the number of the named reason, 0 for none, Rdev what
// it expected and Offset what it found.
type Reply struct {
	Result        int64
	File          uint64
	Rdev          uint64
	Offset        uint64
	Flags, Places uint32
	Place         [MaxFDs]Place
}
