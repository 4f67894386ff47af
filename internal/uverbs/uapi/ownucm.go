package uapi

import "syscall"

// CMOwn is a connection management command that the kernel does not have. It marks the file as one
// of this module's own programs: answers to GET_EVENT and INIT_QP_ATTR then end with an extension.
// Its argument is an OwnCM.
const CMOwn = 0x80000000

// OwnCM is the command's argument and OwnCMResp its answer.
type OwnCM struct{ Response, Flags uint64 }

type OwnCMResp struct{ Reasons uint64 } // see Reasons

// ErrnoOver refuses a call on a connection that has ended meanwhile; an event reports that end.
// Other programs get EINVAL, as from the kernel.
const ErrnoOver = syscall.ENOTCONN

// The options at the level CMOptionOwn have no counterpart in librdmacm. Each takes four bytes.
const (
	CMOptionID  = 0
	CMOptionIB  = 1
	CMOptionOwn = 0x736f6674

	CMOptionTOS        = 0 // one byte
	CMOptionReuseAddr  = 1
	CMOptionAFOnly     = 2
	CMOptionAckTimeout = 3 // one byte

	CMOwnProtocol    = 0 // numbered as in package cmid
	CMOwnMinRNRTimer = 1
	CMOwnUDPPort     = 2 // of the peer's device
	CMOwnTimeout     = 3 // of the peer's response; from bit 8 on, the number of retries
)

// OwnCMAddr follows the answer to QUERY for addresses. It holds the id's state, numbered as in
// package cma.
type OwnCMAddr struct{ State, _ uint32 }

// MaxCMText bounds the text of an event's failure, in bytes.
const MaxCMText = 256

// OwnCMEvent follows the answer to GET_EVENT. It holds the addresses of the id (for a connect
// request those of the new id) and, for a failure, its reason.
type OwnCMEvent struct {
	Local, Remote   SockaddrIn6
	UDPPort         uint16 // of the peer's device, of datagrams
	_               uint16
	TextLen         uint32
	Reason, _       uint32
	Expected, Found uint64
	Text            [MaxCMText]byte
}
