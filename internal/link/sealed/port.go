package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/reason"
)

// errorPause is how long a reader of a socket waits after an error that is not its end.
const errorPause = time.Millisecond

// A buffered socket is one whose buffers have the system's sizes. QUIC would enlarge them, and would say so on standard
// error if it cannot. A meeting sends and receives a few packets.
type buffered struct{}

// SetReadBuffer and SetWriteBuffer do nothing.
func (buffered) SetReadBuffer(int) error  { return nil }
func (buffered) SetWriteBuffer(int) error { return nil }

// A port is the UDP socket of a device that encrypts: peers call there for the meeting, and peers in the clear send
// to it. QUIC gets its packets. What else comes is reported and dropped.
type port struct {
	net.PacketConn
	buffered
	sealed uint16 // port of PSP packets
	report func(reason.Detail)
}

// ReadFrom implements net.PacketConn.
func (p *port) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := p.PacketConn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed) || isTimeout(err):
			return n, from, err
		case err != nil:
			time.Sleep(errorPause) // of one packet
		case isQUIC(b[:n]):
			return n, from, nil
		default:
			p.report(reason.Detail{Reason: reason.PSPClear, Expected: uint64(p.sealed), Found: uint64(addrPort(from).Port())})
		}
	}
}

// isQUIC reports whether a packet is one of QUIC version 1 and none of RoCE v2, which begins with the opcode and three fields more. A
// long header (RFC 9000 17.2) has the version where the BTH has its P_Key, which is never 0 (IBTA 10.9.1.2). A short
// header is followed by a connection ID of this device, where the BTH has its own version, which is 0 (IBTA 9.2).
func isQUIC(b []byte) bool {
	const long, fixed = 0x80, 0x40
	switch {
	case len(b) < 5 || b[0]&fixed == 0:
		return false
	case b[0]&long != 0:
		return quic.Version(binary.BigEndian.Uint32(b[1:])) == quic.Version1
	}
	return b[1]&ownID == ownID
}

// ownID are the bits that are set in the first byte of each connection ID of a device.
const ownID = 0x0f

// ids makes the connection IDs of a device, by which isQUIC knows packets with a short header.
type ids struct{}

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (ids) GenerateConnectionID() (quic.ConnectionID, error) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] |= ownID
	return quic.ConnectionIDFromBytes(b[:]), nil
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (ids) ConnectionIDLen() int { return 8 }

// A caller is the socket of a connection that this device has dialled. As it is connected, the system tells of ICMP
// errors about its packets.
type caller struct {
	*datagrams
	buffered
	peer   net.Addr
	heard  atomic.Bool  // something of the peer
	errors atomic.Int32 // since the connection was dialled
	failed func(error)
}

// datagrams hides the methods of a socket by which QUIC would change it.
type datagrams struct{ net.Conn }

// maxErrors is how many ICMP errors end an attempt to connect. One may be about a packet that was sent before
// the peer was ready, or forged.
const maxErrors = 2

// ReadFrom implements net.PacketConn.
func (c *caller) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, err := c.Read(b)
		switch {
		case err == nil:
			c.heard.Store(true)
			return n, c.peer, nil
		case errors.Is(err, net.ErrClosed) || isTimeout(err):
			return n, c.peer, err
		}
		c.note(err)
		time.Sleep(errorPause)
	}
}

// WriteTo implements net.PacketConn. A packet that was not sent is lost, as others are.
func (c *caller) WriteTo(b []byte, _ net.Addr) (int, error) {
	if _, err := c.Write(b); err != nil {
		if errors.Is(err, net.ErrClosed) {
			return 0, err
		}
		c.note(err)
	}
	return len(b), nil
}

// note counts an error that the system has reported.
func (c *caller) note(err error) {
	var no syscall.Errno
	if errors.As(err, &no) && !c.heard.Load() && c.errors.Add(1) == maxErrors {
		c.failed(err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// addrPort converts an address of package net.
func addrPort(a net.Addr) netip.AddrPort {
	if u, ok := a.(*net.UDPAddr); ok {
		return netip.AddrPortFrom(u.AddrPort().Addr().Unmap(), u.AddrPort().Port())
	}
	return netip.AddrPort{}
}
