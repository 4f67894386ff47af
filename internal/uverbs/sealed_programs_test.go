//go:build interop && linux

package uverbs

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/testenv"
)

// With TLS a device of RoCE v2 stays in the server's process, which keeps the keys. Nothing that the programs send, and
// nothing that the connection manager says for them, is in the clear.
func TestProgramsRunUnchangedEncrypted(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	testenv.Root(t, "captures packets")
	lib := library(t)
	const peer, other = "127.14.3.8", "127.14.3.9"
	c := capture(t, netip.MustParseAddr(peer), netip.MustParseAddr(other))
	a, b := newServer(t, "tls+"+peer), newServer(t, "tls+"+other)
	runUnchanged(t, lib, nil, peer, a, b)
	t.Run("one address", func(t *testing.T) { runUnchanged(t, lib, nil, peer, a, a) })
	sealed, clear := c.stop()
	if sealed == 0 {
		t.Error("no packet of PSP was captured")
	}
	for _, p := range clear {
		t.Errorf("in the clear: %x", p)
	}
}

// A packetCapture reads the loopback interface.
type packetCapture struct {
	fd    int
	ended chan struct{}
	done  chan struct{}

	sealed int
	clear  [][]byte
}

// capture captures what two addresses send to each other. Packets of UDP count as sealed, unless they are to the port of RoCE v2.
// Those and TCP's with the text of rping are in the clear.
func capture(t *testing.T, addrs ...netip.Addr) *packetCapture {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	lo, err := net.InterfaceByName("lo")
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}), Ifindex: lo.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &packetCapture{fd: fd, ended: make(chan struct{}), done: make(chan struct{})}
	go c.run(addrs)
	return c
}

func (c *packetCapture) run(addrs []netip.Addr) {
	defer close(c.done)
	b := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(c.fd, b, 0)
		if err != nil {
			select {
			case <-c.ended:
				return
			default:
				continue
			}
		}
		p := b[:n]
		if n < 28 || p[0]>>4 != 4 {
			continue
		}
		src, dst := netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
		between := (src == addrs[0] || src == addrs[1]) && (dst == addrs[0] || dst == addrs[1])
		udp := p[9] == unix.IPPROTO_UDP
		port := binary.BigEndian.Uint16(p[int(p[0]&15)*4+2:])
		switch {
		case !between:
		case udp && port == 4791, bytes.Contains(p, []byte("rdma-ping-")):
			c.clear = append(c.clear, bytes.Clone(p[:min(n, 64)]))
		case udp:
			c.sealed++
		}
	}
}

// stop returns how many packets were sealed, and those in the clear.
func (c *packetCapture) stop() (sealed int, clear [][]byte) {
	time.Sleep(200 * time.Millisecond) // what is captured later is not judged
	close(c.ended)
	<-c.done
	return c.sealed, c.clear
}
