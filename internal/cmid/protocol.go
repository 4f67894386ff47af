package cmid

// A Protocol is what the device of an id speaks, and so how connections are set
// up. The numbers are those of verbs.Protocol.
type Protocol uint8

// The protocols.
const (
	RoCE       Protocol = 0   // by datagrams of the communication manager (IBTA chapter 12)
	IWARP      Protocol = 1   // by MPA frames on the TCP stream of the connection (RFC 5044)
	RoCEv1     Protocol = 2   // as RoCE, without UDP and IP
	InfiniBand Protocol = 3   // as RoCE, with the paths of the subnet's administrator
	Any        Protocol = 255 // by whatever the device of the id's address speaks, as in librdmacm
)

// RoCEv1Port stands for a UDP port in the addresses of RoCE v1 devices: the protocol's
// EtherType. It tells them from the devices of other protocols on one IP address.
const RoCEv1Port = 0x8915

// InfiniBandPort stands for a UDP port in the addresses of ports of an InfiniBand fabric, as
// RoCEv1Port does: ARP's hardware type for InfiniBand.
const InfiniBandPort = 32
