package rdmacm

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"softrdma/verbs"
)

// A translator is what address translators do to connections to a server: the client connects to the address face, and the server
// sees connections from the address back.
type translator struct {
	t          *testing.T
	face, back netip.Addr
	server     netip.Addr
	wg         sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	closers map[io.Closer]bool
	entries map[entry]*net.UDPConn // towards the server
}

type entry struct {
	client netip.AddrPort
	port   uint16
}

func newTranslator(t *testing.T, face, back, server string, udp ...uint16) *translator {
	t.Helper()
	x := &translator{
		t: t, face: netip.MustParseAddr(face), back: netip.MustParseAddr(back), server: netip.MustParseAddr(server),
		closers: map[io.Closer]bool{}, entries: map[entry]*net.UDPConn{},
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(x.face, 4791)))
	if err != nil {
		t.Fatal(err)
	}
	x.add(l)
	x.wg.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			x.streams(c)
		}
	})
	for _, port := range udp {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.face, port)))
		if err != nil {
			t.Fatal(err)
		}
		x.add(c)
		x.wg.Go(func() { x.datagrams(c, port) })
	}
	t.Cleanup(func() {
		x.mu.Lock()
		x.closed = true
		for c := range x.closers {
			_ = c.Close()
		}
		x.mu.Unlock()
		x.wg.Wait()
	})
	return x
}

// add has a connection be closed with the translator.
func (x *translator) add(c io.Closer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closers[c] = true; x.closed {
		_ = c.Close()
	}
}

// streams passes the bytes of a TCP connection on.
func (x *translator) streams(c *net.TCPConn) {
	s, err := net.DialTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(x.back, 0)), net.TCPAddrFromAddrPort(netip.AddrPortFrom(x.server, 4791)))
	if err != nil {
		_ = c.Close()
		return
	}
	x.add(c)
	x.add(s)
	pass := func(to, from *net.TCPConn) {
		_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}) // without pipes, which stay
		_ = to.CloseWrite()
	}
	x.wg.Go(func() { pass(s, c) })
	x.wg.Go(func() { pass(c, s) })
}

// datagrams passes on what comes to a port of the face.
func (x *translator) datagrams(c *net.UDPConn, port uint16) {
	var b [1 << 16]byte
	for {
		n, from, err := c.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return
		}
		if s := x.entry(c, entry{from, port}); s != nil {
			_, _ = s.Write(b[:n])
		}
	}
}

// entry finds or makes the entry of a client, through which the server's datagrams come back.
func (x *translator) entry(c *net.UDPConn, e entry) *net.UDPConn {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.entries[e]; s != nil || x.closed {
		return s
	}
	s, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.back, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.server, e.port)))
	if err != nil {
		x.t.Error(err)
		return nil
	}
	x.entries[e], x.closers[s] = s, true
	x.wg.Go(func() {
		var b [1 << 16]byte
		for {
			n, err := s.Read(b[:])
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(b[:n], e.client)
		}
	})
	return s
}

// rebind forgets all entries for datagrams. Later ones have other ports.
func (x *translator) rebind() (count int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	count = len(x.entries)
	for e, s := range x.entries {
		_ = s.Close()
		delete(x.entries, e)
	}
	return count
}

// pspPort returns the UDP port of a device for PSP packets.
func pspPort(t *testing.T, device string) uint16 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/net/udp")
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr(device).As4()
	want := fmt.Sprintf("%02X%02X%02X%02X:", a[3], a[2], a[1], a[0])
	for _, f := range strings.Fields(string(b)) {
		if s, ok := strings.CutPrefix(f, want); ok {
			if port, err := strconv.ParseUint(s, 16, 16); err == nil && port != 4791 {
				return uint16(port)
			}
		}
	}
	t.Fatalf("no UDP port of %s for PSP", device)
	return 0
}

// A client and a server are each behind an address translator, and connect as with public addresses. The server sees the client's
// outer address. The translator gives the client's packets other ports, and the connection continues.
func TestSealedThroughTranslators(t *testing.T) {
	leavesNothing(t)
	const face, back = "127.37.91.1", "127.37.91.2"
	both := secret(t, "what both ends know of each other")
	server, client := openSealed(t, serverIP, both), openSealed(t, clientIP, both)
	x := newTranslator(t, face, back, serverIP, 4791, pspPort(t, serverIP))
	l, err := Listen(serverIP+":0", ListenConfig{Device: server, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	accept := accepted(t, l)
	c, err := (&Dialer{Device: client, QP: verbs.QPConfig{MaxInline: 64}}).Dial(within(t), face+":"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	s := accept()
	defer closed(t, s)
	if host, _, _ := net.SplitHostPort(s.RemoteAddr().String()); host != back {
		t.Errorf("the server sees the client at %v, expected %s", s.RemoteAddr(), back)
	}
	talk(t, c, s, "through translators")
	for range 3 {
		if n := x.rebind(); n == 0 {
			t.Error("nothing went through the translator")
		}
		talk(t, c, s, "with another port")
	}
	counter(t, server, "PSP_MOVED")
}
