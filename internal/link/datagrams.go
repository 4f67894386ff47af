package link

import "net/netip"

// Datagrams is a link that carries UDP datagrams of one local address and port.
type Datagrams interface {
	Packets

	// Local returns the address and port that peers send to.
	Local() netip.AddrPort

	// OpenFlow returns the flow to a peer whose source port is chosen by label: equal labels give
	// equal ports as long as the flow is open. A link may fold labels to fewer ports.
	OpenFlow(dst netip.AddrPort, label uint32) (*DatagramFlow, error)

	// Reply returns the flow of one datagram to a peer of which nothing is known, from the port
	// that peers send to. It opens nothing, and is valid until the next Reply.
	Reply(dst netip.AddrPort) (*DatagramFlow, error)

	// CloseFlow ends one use of a flow.
	CloseFlow(*Flow)

	// Join and Leave begin and end receiving packets to an IP multicast group.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error
}

// An Introducer is a link that agrees on keys with a peer before it opens a flow.
type Introducer interface {
	// Introduce waits until packets can be sent to a peer. With prove the peer has to have proved that
	// it has the address; otherwise it is enough that the peer has called from there. Any goroutine may
	// call it.
	Introduce(peer netip.AddrPort, prove bool) error
}

// A Returner is a link of datagrams that can send from the port where it receives, for as long as a
// flow is open. So packets pass an address translator on the way, which lets only answers through.
type Returner interface {
	// OpenReturn returns the flow to a peer from the port that peers send to. CloseFlow ends one use of it.
	OpenReturn(dst netip.AddrPort) (*DatagramFlow, error)
}

// A Translator is a link that knows of address translators (NAT) between this device and its peers.
type Translator interface {
	// Translation returns what is known of the path to a peer, as its packets name it. Any goroutine may call it.
	Translation(peer netip.AddrPort) Translation
}

// A Translation is what an address translator has changed. The zero value is that of a path without one.
type Translation struct {
	Own   netip.Addr     // what the peer takes this device's address to be; invalid if that is the address that it has
	Outer netip.AddrPort // where packets of a peer behind a translator come from, with port 0 if none has come; invalid for others
}

// A Sharer is a link whose address programs may share.
type Sharer interface {
	// HandOver passes a packet that has arrived here on to the program that it is for.
	HandOver(packet []byte, src netip.AddrPort, tos, hops uint8) error
}

// A DatagramFlow is a path to one peer with one source port. The link makes it and keeps its
// numbering up to date.
type DatagramFlow struct {
	Flow
	Src, Dst netip.AddrPort // both ports as they are on the wire
	Numbering
}

// A Numbering is how a system numbers the packets that it sends, in a field that the ICRC covers:
// the identification of IPv4. The link keeps it up to date.
type Numbering struct {
	// Segments is how many packets of a batch leave as one datagram, which is segmented on its
	// way; 0 is all. Send may lower it, for the batches after the present one.
	Segments int

	// First is the number of the next datagram's first packet. Its other packets count up from
	// it. The next datagram begins with one more than this one if Counts, otherwise with the same
	// number.
	First  uint16
	Counts bool
}

// Identification is the number that packet i of the next batch leaves with.
func (n *Numbering) Identification(i int) uint16 {
	if n.Segments == 0 {
		return n.First + uint16(i)
	}
	id := n.First + uint16(i%n.Segments)
	if n.Counts {
		id += uint16(i / n.Segments)
	}
	return id
}
