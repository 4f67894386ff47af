package away

import (
	"fmt"
	"net/netip"
	"syscall"

	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// The kinds of messages. The program sends events, the server all others.
const (
	dial unixmsg.Kind = 1 + iota
	accept
	disconnect
	release
	event
)

var protocol = unixmsg.Protocol{MaxMessage: 8 << 10, MaxDescriptors: 1, Malformed: malformed}

func malformed(expected, found uint64) error {
	return fmt.Errorf("message about a stream: expected %d, found %d: %w", expected, found, syscall.EPROTO)
}

// A call is the body of a message of the server. One of kind accept has the descriptor of the
// connection.
type call struct {
	ID      uint64         // of the stream; the server chooses it
	QPN     uint32         `json:",omitempty"`
	Dst     netip.AddrPort // dial
	Port    uint16         `json:",omitempty"` // dial
	TOS     uint8          `json:",omitempty"` // dial
	Params  *iwarp.Params  `json:",omitempty"` // dial, accept
	Request []byte         `json:",omitempty"` // accept
}

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

// receive waits for the next message and parses its body. The descriptors are the caller's.
func receive(c *unixmsg.Conn, body any) (unixmsg.Kind, unixmsg.Descriptors, error) {
	message, fds, err := c.Receive()
	if err == nil {
		err = protocol.Parse(message, body)
	}
	if err != nil {
		fds.Close()
		return 0, nil, err
	}
	return unixmsg.Kind(message[0]), fds, nil
}
