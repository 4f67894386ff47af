package attack

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/net/ipv4"

	"softrdma/internal/wire/ib"
)

// rawID is the IPv4 identification of raw datagrams. It is not 0, which the kernel would
// replace.
const rawID = 1

const udpLen = 8

// A Raw socket sends from any address and port.
type Raw struct {
	conn net.PacketConn
	out  batcher
	v4   bool
}

// NewRaw opens a raw socket for IPv4 or IPv6. If that is not permitted it skips the
// test, or fails it if it runs as root in CI.
func NewRaw(t testing.TB, v4 bool) *Raw {
	t.Helper()
	// 255 is IPPROTO_RAW: the program writes the IP header.
	network, local := "ip6:255", "::"
	if v4 {
		network, local = "ip4:255", "0.0.0.0"
	}
	c, err := net.ListenPacket(network, local)
	if errors.Is(err, syscall.EPERM) && (os.Getenv("CI") != "true" || os.Getuid() != 0) {
		t.Skipf("SKIPPED: raw sockets are not permitted here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Raw{conn: c, out: batcherOf(c, v4), v4: v4}
	t.Cleanup(func() { r.Close() })
	return r
}

// Send sends datagrams of the socket's address family.
func (r *Raw) Send(ds ...Datagram) error {
	ms := make([]ipv4.Message, len(ds))
	for i := range ds {
		d := &ds[i]
		ms[i] = ipv4.Message{Buffers: [][]byte{r.packet(d)}, Addr: &net.IPAddr{IP: d.Dst.Addr().AsSlice(), Zone: d.Dst.Addr().Zone()}}
	}
	return write(r.out, ms)
}

// packet returns a datagram with its IP and UDP headers.
func (r *Raw) packet(d *Datagram) []byte {
	b := make([]byte, ib.GRHLen+udpLen+len(d.Data))
	n := ib.PutIP(b, d.Src.Addr(), d.Dst.Addr(), 0, 64, rawID, udpLen+len(d.Data))
	b = b[:n+udpLen+copy(b[n+udpLen:], d.Data)]
	if d.Sealed && r.v4 {
		sealed := Datagram{Dst: d.Dst, Data: b[n+udpLen:]}
		sealed.seal(d.Src, rawID)
	}
	ib.PutUDP(b[n:], d.Src.Port(), d.Dst.Port(), len(d.Data), 0)
	ib.PutUDP(b[n:], d.Src.Port(), d.Dst.Port(), len(d.Data), ib.Checksum(17, d.Src.Addr(), d.Dst.Addr(), b[n:]))
	return b
}

// Close closes the socket.
func (r *Raw) Close() error { return r.conn.Close() }
