package demo

import (
	"io"
	"net"
)

// pollRead fills b from the connection. It sleeps meanwhile: the runtime here
// offers no read that does not.
func pollRead(conn net.Conn, b []byte) error {
	_, err := io.ReadFull(conn, b)
	return err
}
