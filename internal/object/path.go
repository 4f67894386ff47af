package object

// A Path says how the packets of a connection reach its peer.
type Path uint8

// The paths.
const (
	PathNone        Path = iota // not connected, or a datagram queue pair
	PathNetwork                 // frames or a stream
	PathSameHost                // memory that is shared with another process
	PathSameProcess             // a device of this process receives the packets directly
)
