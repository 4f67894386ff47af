package netstack

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	gtcp "gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"softrdma/internal/link/fabric"
	"softrdma/internal/link/tcp"
)

const (
	nic = 1

	// queueLen is the number of packets that wait for room at the port. The windows of a few hundred
	// connections fit. More packets are lost.
	queueLen = 16 << 10

	// burst is the number of packets that move in one direction before the other one has its turn.
	burst = 64

	// closeTime is how long Close waits for peers to acknowledge what was sent.
	closeTime = 2 * time.Second
)

// A Stack is a TCP stack at a port. It implements tcp.Network.
type Stack struct {
	stack   *stack.Stack
	nic     *channel.Endpoint
	link    *fabric.Frames
	local   netip.Addr
	network tcpip.NetworkProtocolNumber
	mtu     int
	ended   chan struct{} // run has returned

	in     [fabric.MaxFrame]byte
	out    [fabric.MaxFrame]byte
	length int // of the packet in out that waits for room

	closed atomic.Bool

	mu      sync.Mutex
	closing map[tcpip.Endpoint]struct{} // that were closed, and may have something to send
}

var _ tcp.Network = (*Stack)(nil)

// Open makes a stack with an address, on the link of a port that carries IP packets of TCP, of at most mtu
// bytes. It does not close the link. The stack ends when the link is closed.
func Open(l *fabric.Link, local netip.Addr, mtu int) (*Stack, error) {
	s := &Stack{
		link: fabric.NewFrames(l), local: local, network: ipv4.ProtocolNumber, mtu: mtu,
		ended: make(chan struct{}), closing: make(map[tcpip.Endpoint]struct{}),
	}
	everything := header.IPv4EmptySubnet
	if local.Is6() {
		s.network, everything = ipv6.ProtocolNumber, header.IPv6EmptySubnet
	}
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{gtcp.NewProtocol},
	})
	s.nic = channel.New(queueLen, uint32(mtu), "")
	s.nic.AddNotify(waker{l})
	sack := tcpip.TCPSACKEnabled(true)
	why := s.stack.SetTransportProtocolOption(gtcp.ProtocolNumber, &sack)
	if why == nil {
		why = s.stack.CreateNIC(nic, s.nic)
	}
	if why == nil {
		why = s.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: s.network, AddressWithPrefix: tcpip.AddrFromSlice(local.AsSlice()).WithPrefix()}, stack.AddressProperties{})
	}
	if why != nil {
		s.stack.Close()
		return nil, fmt.Errorf("TCP stack of %v: %w", local, failure(why))
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: everything, NIC: nic}})
	go s.run()
	return s, nil
}

// A waker wakes the link when the stack has a packet to send.
type waker struct{ link *fabric.Link }

// WriteNotify implements channel.Notification.
func (w waker) WriteNotify() { w.link.Wake() }

// Close ends the stack after its connections, which are closed, have sent what they had, or after some
// time. Then it closes the link by calling end. A second Close only calls end.
func (s *Stack) Close(end func() error) error {
	if !s.closed.CompareAndSwap(false, true) {
		return end()
	}
	for begin := time.Now(); s.sending() && time.Since(begin) < closeTime; {
		time.Sleep(time.Millisecond)
	}
	err := end()
	<-s.ended
	s.stack.Close()
	return err
}

// sending reports whether a closed connection still has something to send.
func (s *Stack) sending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ep := range s.closing {
		switch gtcp.EndpointState(ep.State()) {
		case gtcp.StateEstablished, gtcp.StateCloseWait, gtcp.StateFinWait1, gtcp.StateClosing, gtcp.StateLastAck:
			return true
		}
		delete(s.closing, ep)
	}
	return false
}

// noteClosing remembers that a connection was closed.
func (s *Stack) noteClosing(ep tcpip.Endpoint) {
	const many = 64
	s.mu.Lock()
	long := len(s.closing) >= many
	s.closing[ep] = struct{}{}
	s.mu.Unlock()
	if long {
		s.sending() // forgets those that have ended
	}
}

// run moves packets between the stack and the port.
func (s *Stack) run() {
	defer close(s.ended)
	for {
		sent := s.send()
		received, err := s.receive()
		if err == nil && !sent && !received {
			err = s.link.Wait(-1)
		}
		if err != nil {
			return
		}
	}
}

// send moves packets to the port, and reports whether there were some for which it had room.
func (s *Stack) send() (some bool) {
	for range burst {
		if s.length == 0 && !s.next() {
			return some
		}
		level := priority(s.out[:s.length])
		if !s.link.Room(level) {
			return some
		}
		_ = s.link.Send(level, s.out[:s.length]) // lost without a fabric: TCP sends it again
		s.length, some = 0, true
	}
	return some
}

// next takes a packet of the stack, and reports whether there was one. Packets of other protocols are for
// neighbors, which the stack does not have.
func (s *Stack) next() bool {
	for {
		p := s.nic.Read()
		if p == nil {
			return false
		}
		is := p.TransportProtocolNumber == gtcp.ProtocolNumber
		for _, b := range p.AsSlices() {
			s.length += copy(s.out[s.length:], b)
		}
		p.DecRef()
		if is {
			return true
		}
		s.length = 0
	}
}

// priority is that of an IP packet on the fabric: the first three bits of its DSCP.
func priority(packet []byte) uint8 {
	if packet[0]>>4 == 4 {
		return packet[1] >> 5
	}
	return packet[0] & 0xf >> 1
}

// receive moves packets to the stack, and reports whether there were some.
func (s *Stack) receive() (some bool, err error) {
	for range burst {
		n, err := s.link.Receive(s.in[:])
		if n == 0 || err != nil {
			return some, err
		}
		some = true
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(s.in[:n])})
		s.nic.InjectInbound(s.network, p)
		p.DecRef()
	}
	return some, nil
}

// failure returns an error of the stack as one of package syscall, if it has one.
func failure(e tcpip.Error) error {
	if e == nil {
		return nil
	}
	if no, ok := errnos[e.String()]; ok {
		return no
	}
	return errors.New(e.String())
}
