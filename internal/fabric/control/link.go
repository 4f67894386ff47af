package control

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/hardware"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// States of a link: that of the end that is further from carrying data, or "cut" if the cable
// was taken away.
const (
	LinkActive = "active"
	LinkArmed  = "armed"
	LinkInit   = "init" // no manager has set it up
	LinkDown   = "down"
	LinkCut    = "cut"
)

// A Link is a cable with its two ends.
type Link struct {
	State  string     `json:"state"`
	Width  string     `json:"width,omitempty"` // like "4x"; "" while the link is down
	Speed  string     `json:"speed,omitempty"` // like "EDR"
	Rate   uint64     `json:"rate,omitempty"`  // bits of packets in a second
	Faults *Faults    `json:"faults,omitempty"`
	Ends   [2]LinkEnd `json:"ends"`
}

// A LinkEnd is a port with a cable. The far end of a trunk has names only, and port 0.
// The counters are those since the start of the fabric.
type LinkEnd struct {
	Name     string        `json:"name"` // of the port, as requests take it
	Node     string        `json:"node"`
	Port     int           `json:"port"`
	Switch   bool          `json:"switch"`
	LID      uint16        `json:"lid"`
	MTU      int           `json:"mtu"` // that the neighbor takes
	VLs      int           `json:"vls"` // data lanes in operation
	Bytes    uint64        `json:"bytes"`
	Packets  uint64        `json:"packets"`  // sent, as Bytes
	Wait     time.Duration `json:"wait"`     // time in which a packet waited for credit, in nanoseconds
	Errors   uint64        `json:"errors"`   // bad packets that came in
	Discards uint64        `json:"discards"` // packets that could not leave
	Downed   uint64        `json:"downed"`   // how often the link went down

	// Neighbor is what speaks LLDP at the other end, and Mismatches what the two ends have set that does not
	// fit together: at the ports of an Ethernet's switches that lead to a system's interface.
	Neighbor   string   `json:"neighbor,omitempty"`
	Mismatches []string `json:"mismatches,omitempty"`

	Priorities []Priority `json:"priorities,omitempty"` // of a port of an Ethernet, those that were used

	// Load is the part of Rate that this end sent in the time between two replies, see Loads.
	Load float64 `json:"load"`
}

// A Priority is what a port of an Ethernet has counted for a priority.
type Priority struct {
	Priority       int           `json:"priority"`
	Bytes          uint64        `json:"bytes"`
	Frames         uint64        `json:"frames"` // sent, as Bytes
	Queue          int           `json:"queue"`  // bytes that wait now
	PausesSent     uint64        `json:"pauses_sent"`
	PausesReceived uint64        `json:"pauses_received"`
	Paused         time.Duration `json:"paused"` // how long the neighbor has paused it, in nanoseconds
	Marked         uint64        `json:"marked"` // frames, with ECN
	Dropped        uint64        `json:"dropped"`
	Storms         uint64        `json:"storms"`
}

// Loads sets the load of the links in a reply by an earlier reply to the same request.
func Loads(before, after *Reply) {
	dt := (after.Now - before.Now).Seconds()
	if len(before.Links) != len(after.Links) || dt <= 0 {
		return
	}
	for i := range after.Links {
		l := &after.Links[i]
		for k := range l.Ends {
			sent := l.Ends[k].Bytes - before.Links[i].Ends[k].Bytes
			if l.Rate > 0 && l.Ends[k].Bytes >= before.Links[i].Ends[k].Bytes {
				l.Ends[k].Load = float64(sent) * 8 / dt / float64(l.Rate)
			}
		}
	}
}

func (c *view) links(r *Request, reply *Reply) error { return c.list(r, reply, c.link) }

// list answers with the cables of the nodes of a request.
func (c *directory) list(r *Request, reply *Reply, link func(topology.End) Link) error {
	only := make(map[int]bool)
	err := each(r.Args, c.fabric.Find, func(node int) { only[node] = true })
	reply.Links = []Link{}
	for _, e := range c.cables() {
		if peer := c.fabric.Port(e).Peer; len(only) == 0 || only[e.Node] || peer.Port != 0 && only[peer.Node] {
			reply.Links = append(reply.Links, link(e))
		}
	}
	return err
}

// hasCable reports whether a port has a cable or a trunk.
func (c *directory) hasCable(e topology.End) bool {
	return c.fabric.Port(e).Connected() || c.trunk(e) != ""
}

// cables returns one end of each cable: that of the node which comes first in the fabric. A
// trunk has one end here.
func (c *directory) cables() (list []topology.End) {
	for i := range c.fabric.Nodes {
		for p := 1; p <= c.fabric.Nodes[i].NumPorts(); p++ {
			e := topology.End{Node: i, Port: p}
			peer := c.fabric.Port(e).Peer
			if c.trunk(e) != "" || peer.Port != 0 && (i < peer.Node || i == peer.Node && p < peer.Port) {
				list = append(list, e)
			}
		}
	}
	return list
}

func (c *view) state(e topology.End) smp.PortState { return c.Node(e.Node).Link(e.Port).State }

func (c *view) linkState(e topology.End) string {
	if c.IsCut(e) {
		return LinkCut
	}
	state := c.state(e)
	if c.Trunk(e) == nil {
		state = min(state, c.state(c.fabric.Port(e).Peer))
	}
	switch state {
	case smp.PortActive:
		return LinkActive
	case smp.PortArmed:
		return LinkArmed
	case smp.PortInit:
		return LinkInit
	}
	return LinkDown
}

func (c *view) link(e topology.End) Link {
	l := Link{State: c.linkState(e), Ends: c.ends(e, c.linkEnd)}
	if h := c.Node(e.Node).Link(e.Port); h.Physical == smp.PhysicalLinkUp {
		w, s := widthAndSpeed(h)
		l.Width, l.Speed, l.Rate = w.String(), s.String(), topology.LinkRate(w, s)
	}
	if f := c.Faults(e); f != (subnet.Faults{}) {
		l.Faults = &Faults{BitErrors: f.BitErrors, CreditLoss: f.CreditLoss}
	}
	return l
}

// ends describes both ends of a cable, of which one describes a port.
func (c *directory) ends(e topology.End, one func(topology.End) LinkEnd) [2]LinkEnd {
	far := c.trunk(e)
	if far != "" {
		return [2]LinkEnd{one(e), {Name: far, Node: far}}
	}
	return [2]LinkEnd{one(e), one(c.fabric.Port(e).Peer)}
}

// otherEnd is the name of what a cable leads to from a port.
func (c *directory) otherEnd(e topology.End) string {
	if far := c.trunk(e); far != "" {
		return far
	}
	return c.endPortName(c.fabric.Port(e).Peer)
}

func (c *view) linkEnd(e topology.End) LinkEnd {
	end := LinkEnd{Name: c.endPortName(e), Node: c.names[e.Node], Port: e.Port, Switch: c.isSwitch(e.Node)}
	n := c.Node(e.Node)
	end.LID = uint16(n.LID(e.Port))
	config, k := n.PortConfig(e.Port), n.Counters(e.Port)
	end.MTU, end.VLs = config.MTU, config.VLs
	end.Bytes, end.Packets, end.Wait = 4*k.XmitData, k.XmitPackets, time.Duration(k.XmitWait)*port.Tick
	end.Errors = k.RcvErrors + k.RcvRemotePhysicalErrors + k.LocalLinkIntegrityErrors
	end.Discards = k.XmitDiscards + k.RcvSwitchRelayErrors + k.XmitConstraintErrors + k.RcvConstraintErrors + k.VL15Dropped
	end.Downed = k.LinkDowned
	return end
}

// widthAndSpeed are those of a link that is up.
func widthAndSpeed(l hardware.Link) (topology.Width, topology.Speed) {
	w := topology.Width(max(1, l.Width.Lanes()))
	switch {
	case l.ExtSpeed&smp.ExtSpeedNDR != 0:
		return w, topology.NDR
	case l.ExtSpeed&smp.ExtSpeedHDR != 0:
		return w, topology.HDR
	case l.ExtSpeed&smp.ExtSpeedEDR != 0:
		return w, topology.EDR
	case l.ExtSpeed&smp.ExtSpeedFDR != 0:
		return w, topology.FDR
	case l.Speed&smp.SpeedQDR != 0:
		return w, topology.QDR
	case l.Speed&smp.SpeedDDR != 0:
		return w, topology.DDR
	}
	return w, topology.SDR
}
