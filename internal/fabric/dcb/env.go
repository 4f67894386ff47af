package dcb

import "softrdma/internal/reason"

// An Env is what a switch or a host's port is connected to. Its methods are called from within the
// calls of that node, and call none of its methods, except Deliver.
type Env interface {
	// Transmit gets a frame whose first byte is on the link of a port now. It owns the frame.
	Transmit(now Time, port int, f *Frame)

	// Schedule tells when the node's Run is to be called for a port: at, or not at all if that is
	// Never. It replaces what was told before.
	Schedule(port int, at Time)

	// Deliver gets a frame that ends at the node: at a host its last byte has arrived now, at a switch
	// its first, and Frame.Tail is when the last one has. It owns the frame if it returns true. With
	// false the frame stays in the node with all behind it on its priority, until the node's Resume; a
	// switch drops it.
	Deliver(now Time, port int, f *Frame) bool

	// Dropped gets each frame that a node drops, with the port at which it happens. The frame stays
	// the node's.
	Dropped(now Time, port int, f *Frame, d reason.Detail)
}

// Headroom returns the bytes of cells that a priority of a port needs for what arrives after it has
// asked the neighbor to pause (802.1Q annex N), if all frames have a length from least to MTU. delay
// is the time that a bit takes to the other end, and response the neighbor's PortConfig.Response.
func Headroom(c *PortConfig, cell, least int, delay, response Time) int {
	mtu := c.MTU
	if mtu == 0 {
		mtu = DefaultMTU
	}
	byteTime := c.Speed.PerByte()
	// The frame that pauses waits for one that has just begun to leave. Until the neighbor reacts,
	// frames arrive whose first byte left it before.
	window := Time(WireLen(mtu)+WireLen(MinFrame))*byteTime + 2*delay + response
	if least >= mtu {
		return cellsOf(mtu, cell) * cell * int(ceil(window, Time(WireLen(mtu))*byteTime))
	}
	// The worst mixture of frames is that with the most cells for the time on the link: those that
	// begin one more cell. The last one begins just before the neighbor reacts.
	worst := 0
	for n := least; n <= mtu; n++ {
		if n == least || n%cell == 1 || cell == 1 {
			worst = max(worst, int(ceil(window*Time(cellsOf(n, cell)), Time(WireLen(n))*byteTime)))
		}
	}
	return (worst + cellsOf(mtu, cell)) * cell
}

func ceil(a, b Time) Time { return (a + b - 1) / b }

func cellsOf(n, cell int) int { return (n + cell - 1) / cell }
