package rdmanet

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"softrdma/verbs"
)

func TestConnSemanticsOfNettest(t *testing.T) {
	for name, spin := range map[string]Options{"polling": {}, "sleeping": {Spin: -1}, "small": {ReadBuffer: 8192, WriteBuffer: 8192}} {
		t.Run(name, func(t *testing.T) {
			da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
			defer da.Close()
			defer db.Close()
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, wa := half(t, da, spin)
				b, wb := half(t, db, spin)
				join(t, a, b, wa, wb)
				return a, b, func() { a.Close(); b.Close() }, nil
			})
		})
	}
}
