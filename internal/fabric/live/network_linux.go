package live

import (
	"net/netip"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/topology"
)

// A network is what the loop of a fabric runs: an InfiniBand subnet or an Ethernet.
type network interface {
	// kind is what programs ask for.
	kind() attach.Network

	// deadline is when something happens next, never if nothing does.
	deadline() time.Duration

	// run lets happen what is due until a time, which may be later than now.
	run(now, until time.Duration)

	// plug is called for the first program at a node.
	plug(p *program)

	// unplug is called when a program has left its port.
	unplug(now time.Duration, a *attachment)

	// describe returns what a port is to a program.
	describe(a *attachment) attach.Info

	// read makes the next packet of a message x.frame, and reports false if it is refused.
	read(a *attachment, level uint8, x *input) bool

	// send offers x.frame to the program's node, and reports whether that has taken it.
	send(now time.Duration, a *attachment, x *input) bool

	// discard frees x.frame.
	discard(x *input)

	// resume offers packets to a program again that it had no room for.
	resume(now time.Duration, at topology.End)

	// setCut takes the cable of a port away, or puts it back. isCut reports whether it was taken away.
	setCut(now time.Duration, at topology.End, cut bool)
	isCut(at topology.End) bool

	// message handles a message of an attached program. The goroutine is that of its connection.
	message(a *attachment, kind attach.Kind, b []byte) error

	// named returns the node that a program names, and the address that its device has there: invalid on
	// InfiniBand.
	named(name string) (node int, addr netip.Addr, err error)

	// find returns the port with an IP address.
	find(ip netip.Addr) (f attach.FoundBody, ok bool)

	// plugOf returns what the network has at a trunk.
	plugOf(e *trunkEnd) plug

	// answer answers a question of attach.Do.
	answer(question []byte) ([]byte, error)
}

// never is the deadline of a network in which nothing will happen.
const never = time.Duration(1<<63 - 1)
