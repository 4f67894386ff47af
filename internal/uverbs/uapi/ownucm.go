package uapi

import "syscall"

// CMOwn is a command of connection management that is no kernel's: the file is
// one of this module's own programs from then on, and answers of GET_EVENT and
// INIT_QP_ATTR have an own part behind them. It takes an OwnCM.
const CMOwn = 0x80000000

// OwnCM is the command, and OwnCMResp its answer.
type OwnCM struct{ Response, Flags uint64 }

type OwnCMResp struct{ Reasons uint64 } // see Reasons

// ErrnoOver refuses a call on a connection that has ended meanwhile, of which an
// event tells. To other programs that is EINVAL, as the kernel has it.
const ErrnoOver = syscall.ENOTCONN

// The options at the level CMOptionOwn have no counterpart in librdmacm. Each
// has four bytes.
const (
	CMOptionID  = 0
	CMOptionIB  = 1
	CMOptionOwn = 0x736f6674

	CMOptionTOS        = 0 // one byte
	CMOptionReuseAddr  = 1
	CMOptionAFOnly     = 2
	CMOptionAckTimeout = 3 // one byte

	CMOwnProtocol    = 0 // as package cmid numbers them
	CMOwnMinRNRTimer = 1
	CMOwnUDPPort     = 2 // of the peer's device
	CMOwnTimeout     = 3 // of the peer's response, and from bit 8 on how often it is asked again
)

// OwnCMAddr is behind the answer of QUERY for addresses: the id's state, as
// package cma numbers them.
type OwnCMAddr struct{ State, _ uint32 }

// MaxCMText bounds the text of an event's failure, in bytes.
const MaxCMText = 256

// OwnCMEvent is behind the answer of GET_EVENT: the addresses of the id, of a
// connect request's new id, and why an event is one of failure.
type OwnCMEvent struct {
	Local, Remote   SockaddrIn6
	UDPPort         uint16 // of the peer's device, of datagrams
	_               uint16
	TextLen         uint32
	Reason, _       uint32
	Expected, Found uint64
	Text            [MaxCMText]byte
}
