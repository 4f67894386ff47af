package control

import (
	"fmt"
	"strconv"
	"time"

	"softrdma/internal/fabric/node"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A Trace is the path of a packet by the present tables and states.
type Trace struct {
	From    string `json:"from"`
	To      string `json:"to"`
	SLID    uint16 `json:"slid"`
	DLID    uint16 `json:"dlid"`
	SL      uint8  `json:"sl"`
	Assumed bool   `json:"assumed"` // the service level that programs would use is not known here
	Hops    []Hop  `json:"hops"`
	Trunk   string `json:"trunk,omitempty"`  // by which the packet leaves the fabric, if it does
	Broken  *Break `json:"broken,omitempty"` // nil if the packet arrives or leaves

	// Of Ethernet, where SL is the priority: the addresses, the source port of UDP, and their hash.
	FromIP     string `json:"from_ip,omitempty"`
	ToIP       string `json:"to_ip,omitempty"`
	SourcePort uint16 `json:"source_port,omitempty"`
	Hash       uint64 `json:"hash,omitempty"`
}

// A Hop is a node on a path.
type Hop struct {
	Node string `json:"node"`
	LID  uint16 `json:"lid"`
	In   int    `json:"in"`           // port by which the packet comes; 0 at the first node
	Out  int    `json:"out"`          // by which it leaves; 0 at the last node
	VL   int    `json:"vl"`           // lane, or priority of Ethernet, on the link that it takes then; -1 at the last node
	To   string `json:"to,omitempty"` // the port at the other end of that link

	// Of Ethernet: the ports among which the switch chooses, if there are several, what decides that, for
	// how long the neighbor has paused the priority on which the packet leaves, and for how long the trunk
	// by which it leaves has taken no frames.
	Among  []int         `json:"among,omitempty"`
	By     string        `json:"by,omitempty"`
	Paused time.Duration `json:"paused,omitempty"`
	Held   time.Duration `json:"held,omitempty"`
}

// A Break says where and why a packet is lost.
type Break struct {
	Node   string `json:"node"`
	Reason string `json:"reason,omitempty"` // its name, which "softrdma explain" knows
	Text   string `json:"text"`
}

// A walk follows a packet.
type walk struct {
	*view
	t    *Trace
	lid  ib.LID
	at   topology.End // Port is 0 where the packet begins
	seen map[topology.End]bool
}

func (c *view) trace(r *Request, reply *Reply) error {
	from, err := c.findEndPort(r.Args[0])
	if err != nil {
		return err
	}
	t := &Trace{From: c.endPortName(from), To: r.Args[1], Hops: []Hop{}}
	t.SLID, _ = c.Agent(from.Node).LID(from.Port)
	if err := c.destination(r.Args[1], t); err != nil {
		return err
	}
	t.SL = c.serviceLevels(r.SL)(t.SLID, t.DLID)
	t.Assumed = r.SL == nil && !c.knowsLevels()
	reply.Trace = t
	w := &walk{view: c, t: t, lid: ib.LID(t.DLID), at: topology.End{Node: from.Node}, seen: make(map[topology.End]bool)}
	if t.DLID == 0 {
		w.lose(reason.Detail{}, "%s has no LID: no manager has set it up", t.To)
		return nil
	}
	for port := from.Port; w.step(port); port = 0 {
	}
	return nil
}

// destination reads a LID or the name of an end port.
func (c *view) destination(name string, t *Trace) error {
	if lid, err := strconv.ParseUint(name, 0, 16); err == nil {
		t.DLID = uint16(lid)
		if lid == 0 || lid > topology.LastUnicastLID {
			return fmt.Errorf("%s: expected a unicast LID, from 1 to %#x", name, topology.LastUnicastLID)
		}
		if e, ok := c.owner(t.DLID); ok {
			t.To = c.endPortName(e)
		}
		return nil
	}
	to, err := c.findEndPort(name)
	if err != nil {
		return err
	}
	t.To = c.endPortName(to)
	t.DLID, _ = c.Agent(to.Node).LID(to.Port)
	return nil
}

// endPortName is the name of a port, or of a switch's management port.
func (c *directory) endPortName(e topology.End) string {
	if e.Port == 0 {
		return c.names[e.Node]
	}
	return c.fabric.PortName(c.names[e.Node], e)
}

// step is one node on the path, and reports whether the packet leaves it. An adapter
// sends by a given port.
func (w *walk) step(own int) bool {
	n := w.Node(w.at.Node)
	w.t.Hops = append(w.t.Hops, Hop{Node: w.names[w.at.Node], In: w.at.Port, VL: -1})
	h := &w.t.Hops[len(w.t.Hops)-1]
	if lid, _ := w.Agent(w.at.Node).LID(max(own, w.at.Port)); lid != 0 {
		h.LID = lid
	}
	var out int
	switch {
	case w.isSwitch(w.at.Node):
		var ok bool
		if out, ok = w.forward(n); !ok {
			return false
		}
	case w.at.Port != 0 || w.owns(own):
		if port := max(own, w.at.Port); !w.owns(port) {
			lid, _ := w.Agent(w.at.Node).LID(port)
			w.lose(reason.Detail{Reason: reason.FabricForeign, Expected: uint64(lid), Found: uint64(w.lid)}, "")
		}
		return false
	default:
		out = own
	}
	return w.leave(n, h, out)
}

// owns reports whether the packet is for an end port of the node.
func (w *walk) owns(port int) bool {
	base, lmc := w.Agent(w.at.Node).LID(port)
	return base != 0 && uint16(w.lid)>>lmc == base>>lmc
}

// forward returns the port by which a switch sends the packet on, and reports whether it does.
func (w *walk) forward(n *node.Node) (int, bool) {
	if w.owns(0) {
		return 0, false
	}
	out := n.Unicast(w.lid)
	switch {
	case out == 0:
		w.lose(reason.Detail{Reason: reason.FabricForeign, Expected: uint64(n.LID(0)), Found: uint64(w.lid)}, "")
	case int(out) > n.Ports():
		w.lose(reason.Detail{Reason: reason.FabricRoute, Expected: uint64(n.LinearTop()), Found: uint64(w.lid)}, "")
	case int(out) == w.at.Port:
		w.lose(reason.Detail{Reason: reason.FabricLoop, Expected: uint64(out), Found: uint64(w.lid)}, "")
	default:
		return int(out), true
	}
	return 0, false
}

// leave sends the packet by a port, and reports whether it arrives at the other end.
func (w *walk) leave(n *node.Node, h *Hop, out int) bool {
	e := topology.End{Node: w.at.Node, Port: out}
	vl := n.Lane(w.at.Port, out, w.t.SL)
	h.Out, h.VL, h.To = out, int(vl), w.behind(e)
	peer := w.fabric.Port(e).Peer
	switch state := n.Link(out).State; {
	case vl == ib.ManagementVL:
		w.lose(reason.Detail{Reason: reason.FabricLane, Expected: ib.ManagementVL, Found: uint64(w.t.SL)}, "")
	case peer.Port == 0 && w.Trunk(e) == nil:
		w.lose(reason.Detail{}, "port %d has no cable", out)
	case w.IsCut(e):
		w.lose(reason.Detail{}, "the cable of port %d is cut", out)
	case state != smp.PortActive:
		w.lose(reason.Detail{Reason: reason.FabricPortState, Expected: uint64(smp.PortActive), Found: uint64(state)}, "")
	case int(vl) >= n.PortConfig(out).VLs:
		w.lose(reason.Detail{Reason: reason.FabricVL, Expected: uint64(n.PortConfig(out).VLs), Found: uint64(vl)}, "")
	case peer.Port == 0:
		w.t.Trunk = w.Trunk(e).String()
	case w.seen[e]:
		w.lose(reason.Detail{}, "the tables send packets for LID %d round in a circle", w.lid)
	default:
		w.seen[e] = true
		w.at = peer
		return true
	}
	return false
}

// lose ends the path at the present node.
func (w *walk) lose(d reason.Detail, format string, args ...any) {
	w.t.Broken = &Break{Node: w.names[w.at.Node], Text: fmt.Sprintf(format, args...)}
	if d.Reason != reason.None {
		w.t.Broken.Reason, w.t.Broken.Text = d.Reason.String(), d.String()
	}
}
