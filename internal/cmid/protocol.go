package cmid

// A Protocol is the protocol of an id's device, which determines how connections are set up.
// The numbers are those of verbs.Protocol.
type Protocol uint8

// The protocols.
const (
	RoCE       Protocol = 0   // by datagrams of the communication manager (IBTA chapter 12)
	IWARP      Protocol = 1   // by MPA frames on the TCP stream of the connection (RFC 5044)
	RoCEv1     Protocol = 2   // as RoCE, without UDP and IP
	InfiniBand Protocol = 3   // as RoCE, with paths from the subnet administrator
	Any        Protocol = 255 // the protocol of the device with the id's address, as in librdmacm
)

// RoCEv1Port stands for a UDP port in the addresses of RoCE v1 devices. It is the protocol's
// EtherType. It distinguishes them from devices of other protocols on one IP address.
const RoCEv1Port = 0x8915

// InfiniBandPort stands for a UDP port in the addresses of ports of an InfiniBand fabric, like
// RoCEv1Port. It is ARP's hardware type of InfiniBand.
const InfiniBandPort = 32
