package control

import (
	"net"
	"os"

	"softrdma/internal/unixmsg"
)

// allowed reports whether a connection's peer is this user or root.
func allowed(c *net.UnixConn) bool {
	p, err := unixmsg.Peer(c)
	return err == nil && (p.Uid == 0 || int(p.Uid) == os.Geteuid())
}
