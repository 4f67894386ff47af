package demo

import (
	"io"
	"net"
)

// pollRead fills b from the connection. It may sleep, because the runtime offers no
// other read on Windows.
func pollRead(conn net.Conn, b []byte) error {
	_, err := io.ReadFull(conn, b)
	return err
}
