package away

import (
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// The kinds of messages. The program sends event, connect and records, the server all others.
const (
	dial unixmsg.Kind = 1 + iota
	accept
	disconnect
	release
	event
	connect
	records
)

var protocol = unixmsg.Protocol{MaxMessage: 8 << 10, MaxDescriptors: 1, Malformed: malformed}

func malformed(expected, found uint64) error {
	return fmt.Errorf("message about a stream: expected %d, found %d: %w", expected, found, syscall.EPROTO)
}

// A call is the body of a message other than event. One of kind accept has the descriptor of the
// connection, one of kind connect that of a socket to which the server relays a connection.
type call struct {
	ID      uint64         // of the stream; the server chooses it
	QPN     uint32         `json:",omitempty"`
	Dst     netip.AddrPort // dial, connect
	Port    uint16         `json:",omitempty"` // dial, connect
	TOS     uint8          `json:",omitempty"` // dial, connect
	Params  *iwarp.Params  `json:",omitempty"` // dial, accept
	Request []byte         `json:",omitempty"` // accept
}

// A keep is the body of a message of kind records, which has the descriptor of a directory.
type keep struct{ PID int }

// A report is the body of an event of a stream.
type report struct {
	ID        uint64
	Kind      iwarp.EventKind
	Agreement iwarp.Agreement
	Private   []byte `json:",omitempty"`
	Detail    reason.Detail
	Error     string `json:",omitempty"`
	Local     netip.AddrPort
}
