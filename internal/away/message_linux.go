package away

import (
	"encoding/json"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
)

// An op is what a program is to do with a stream.
type op uint8

const (
	dial op = 1 + iota
	accept
	disconnect
	release
)

// A call is a message of the server. One with accept has the descriptor of the connection.
type call struct {
	Op      op
	ID      uint64         // of the stream; the server chooses it
	QPN     uint32         `json:",omitempty"`
	Dst     netip.AddrPort // dial
	Port    uint16         `json:",omitempty"` // dial
	TOS     uint8          `json:",omitempty"` // dial
	Params  *iwarp.Params  `json:",omitempty"` // dial, accept
	Request []byte         `json:",omitempty"` // accept
}

// A report is a message of the program: an event of a stream.
type report struct {
	ID        uint64
	Kind      iwarp.EventKind
	Agreement iwarp.Agreement
	Private   []byte `json:",omitempty"`
	Detail    reason.Detail
	Error     string `json:",omitempty"`
	Local     netip.AddrPort
}

// maxMessage is more than the length of any message.
const maxMessage = 8 << 10

// receive waits for the next message, and returns the descriptor that came with it, or -1.
func receive(c *net.UnixConn, buffer []byte, message any) (fd int, err error) {
	var oob [64]byte
	n, control, _, _, err := c.ReadMsgUnix(buffer, oob[:])
	if err != nil {
		return -1, err
	}
	fd = -1
	if list, err := unix.ParseSocketControlMessage(oob[:control]); err == nil {
		for _, m := range list {
			fds, _ := unix.ParseUnixRights(&m)
			for _, x := range fds {
				if fd >= 0 {
					_ = unix.Close(fd)
				}
				fd = x
			}
		}
	}
	if n == 0 {
		return fd, net.ErrClosed
	}
	return fd, json.Unmarshal(buffer[:n], message)
}
