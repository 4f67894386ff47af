package reason

// A Number is the kind of a number in a Detail whose values have names. The
// package that owns the kind registers the names (see Name).
type Number uint8

// The kinds of numbers with names. The zero value means a quantity, an address or
// a key, which is printed as a number.
const (
	NumQPType      Number = iota + 1 // ibv_qp_type
	NumQPState                       // ibv_qp_state
	NumAccess                        // ibv_access_flags
	NumOperation                     // ibv_wr_opcode
	NumStatus                        // ibv_wc_status
	NumCause                         // a Reason
	NumControl                       // congestion control algorithm
	NumKeyState                      // whether a memory key can be used: 1, 0
	NumOpcode                        // of a BTH
	NumTransport                     // of a BTH's opcode
	NumSyndrome                      // of an acknowledge
	NumFamily                        // address family: Linux's AF_INET and AF_INET6
	NumErrno                         // errno of the operating system
	NumCMAttribute                   // attribute ID of a management datagram
	NumCMTransport                   // service type of a connection request
	NumCMState                       // of a connection
	NumCMReject                      // why a connection is rejected
	NumSIDRStatus                    // outcome of a service ID resolution
	NumStreamState                   // of an iWARP stream
	NumRDMAPOpcode                   // of an RDMAP message
	NumTerminate                     // code of a Terminate message
	NumIDState                       // of a communication identifier
	NumHostMode                      // whether a device uses the memory path
	NumPortState                     // of an InfiniBand link
	NumTrunkUse                      // what is beyond the ends of a trunk
	numbers
)

// names holds the registered functions.
var names [numbers]func(uint64) string

// Name registers the function that names the values of a kind. The package that
// owns the kind calls Name from an init function. The function returns "" for a
// value without a name.
func Name(n Number, name func(uint64) string) { names[n] = name }

// argument returns v as an argument of its reason's format: its name if it has
// one, else the number.
func (n Number) argument(v uint64) any {
	if n == NumCause {
		return Reason(v)
	}
	if f := names[n]; f != nil {
		if s := f(v); s != "" {
			return s
		}
	}
	return v
}
