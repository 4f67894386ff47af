// Package hostport names what programs have of the ports of a fabric, above all of the port of a host of
// an Ethernet.
package hostport

// A Service is what passes between a program and the port of a host of an Ethernet. Programs with
// different services, or with different addresses of the host, are at one port at the same time.
type Service uint8

// The services.
const (
	Datagrams  Service = iota // payloads of UDP datagrams, with the fields of their headers
	RoCEFrames                // frames of RoCE v1
	Segments                  // IP packets of TCP

	// WholeFrames are all frames, for a host that has a network stack of its own. No other program is at
	// the port, which answers ARP requests and neighbor solicitations for the hosts of the fabric.
	WholeFrames

	services
)

// Valid reports whether there is such a service.
func (s Service) Valid() bool { return s < services }

// A Program is one that has a port of a fabric, or a service of it.
type Program struct {
	Process int    `json:"process"`          // 0 on another host
	Remote  string `json:"remote,omitempty"` // its address on another host
	Device  string `json:"device,omitempty"` // at a port of an Ethernet, as -d takes it; Tap for WholeFrames
}

// Tap is the Device of a host that has a network stack of its own.
const Tap = "tap"

// FullMember is the JoinState of the groups of an Ethernet, which have only one kind of members.
const FullMember = 1
