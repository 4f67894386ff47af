package object

// A Path is how the packets of a connection reach its peer. A daemon tells its clients the number.
type Path uint8

// The paths.
const (
	PathNone        Path = iota // not connected, or datagrams
	PathNetwork                 // frames, or a stream
	PathSameHost                // memory that is shared with another process
	PathSameProcess             // handed over to a device of this process
)
