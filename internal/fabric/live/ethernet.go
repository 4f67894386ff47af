package live

import (
	"net/netip"
	"time"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/topology"
)

// An Ethernet says what a fabric of Ethernet switches is. Programs attach to its hosts.
type Ethernet struct {
	Link   lan.Link                          // of each cable
	Each   func(e topology.End, l *lan.Link) // changes the link of an end's cable; may be nil
	Switch bridge.Config                     // of each switch, see lan.Config
	UpDown bool                              // routes go up and then down, see lan.Config
	Prefix netip.Prefix                      // of the hosts' addresses, see lan.Config

	// Control answers the questions of attach.Do. It is called by the goroutine that owns the
	// network. Nil refuses all questions. attached returns the programs at a port.
	Control func(now time.Duration, n *lan.Network, attached func(topology.End) []hostport.Program, question []byte) ([]byte, error)
}
