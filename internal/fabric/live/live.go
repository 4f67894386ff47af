// Package live runs a subnet in real time, and lets other processes attach to its ports
// (package attach).
//
// One goroutine owns the subnet: it runs the events that are due, moves packets between nodes and
// the rings of the programs, and sleeps when nothing is due. Other goroutines ask it by Do.
// The subnet's clock may be ahead of the real one by up to 100 µs, so that the delays of cables and
// switches cost no sleep, and it is behind when the machine is late.
//
// The package decides nothing that a node, an agent or a manager decides.
package live

import (
	"net/netip"
	"time"

	"softrdma/internal/fabric/node"
	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A Config says what a fabric is.
type Config struct {
	Name      string // by which programs find it
	Directory string // of its socket; "" is attach.Directory()

	Fabric *topology.Fabric
	Cable  time.Duration // see subnet.Config
	Port   port.Config   // the same; Refresh, NoVCRC and Early are set
	Node   node.Config   // the same

	// Manager is the subnet manager, nil if there is none. It runs at port 0 of the first switch, or
	// at the first adapter if there is no switch. The GUID is set.
	Manager *sm.Config

	// Addrs is the table of IP addresses of adapters' ports.
	Addrs map[topology.End][]netip.Addr

	// Ethernet makes the fabric an Ethernet. Cable, Port, Node, Manager, Addrs and Control are not used
	// then.
	Ethernet *Ethernet

	Trunks Trunks // to other fabrics
	Remote Remote // programs on other hosts

	// Control answers the questions of attach.Do (package control). It is called by the goroutine
	// that owns the subnet. The manager is nil if there is none. Nil refuses all questions.
	Control func(now time.Duration, s *subnet.Subnet, m *sm.Manager, question []byte) ([]byte, error)

	// End is called when another process asks the fabric to end (attach.Down). It makes
	// its owner call Close, and does not wait for that. Nil refuses.
	End func()

	// Dropped is called by the goroutine that owns the subnet for each packet that is
	// dropped. It may be nil.
	Dropped func(at topology.End, d reason.Detail)
}

// ahead is how far the subnet's clock may be ahead of the real one.
const ahead = 100 * time.Microsecond

// slice is how much of the subnet's time passes at once if the machine is late. The clock then
// moves on to the real time, so that lateness delays what follows and does not add up.
const slice = time.Millisecond

// early is how long before a link is free the next packet may leave. It is short compared with
// ahead, and lets a row of packets cross each node together.
const early = 5 * time.Microsecond

// managerNode is where the manager runs.
func managerNode(f *topology.Fabric) int {
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			return i
		}
	}
	return 0
}

// ManagerGUID is the GUID of the port at which the manager of a fabric runs.
func ManagerGUID(f *topology.Fabric) uint64 {
	n := &f.Nodes[managerNode(f)]
	first, _ := n.EndPorts()
	return n.Ports[first].GUID
}
