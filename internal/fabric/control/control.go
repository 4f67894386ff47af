// Package control answers questions about a running fabric and disturbs it: what the verbs of
// "softrdma fabric" do. An answer describes the subnet as it is at the moment of the call:
// the nodes' own tables, states and counters, not what a manager meant to program.
//
// Requests and replies are JSON values, so that they can come from another process. The
// package does no I/O, reads no clock, and prints nothing: the command formats replies, and
// package drawing draws them.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
)

// The verbs of a Request.
const (
	VerbStatus   = "status"   // no argument
	VerbPorts    = "ports"    // no argument
	VerbLinks    = "links"    // none, or nodes
	VerbRoutes   = "routes"   // a switch
	VerbTrace    = "trace"    // two end ports, or an end port and a LID
	VerbCounters = "counters" // none, or ports and nodes
	VerbDeadlock = "deadlock" // none
	VerbFaults   = "faults"   // none: all cables with faults; or ports, whose cables get Faults
	VerbLinkDown = "link-down"
	VerbLinkUp   = "link-up" // ports of cables
	VerbLoad     = "load"    // with Load: two end ports, or none for a shift; without it lists the loads
	VerbStall    = "stall"   // none: all adapters that take not all; or adapters, which get Levels
	VerbFail     = "fail"
	VerbRepair   = "repair" // switches
	VerbManager  = "sm"     // "on" or "off": the fabric's own
)

// A Request is one verb with its arguments. Nodes are named by description, ID or GUID, ports
// by NODE:PORT, or by NODE if the node has one port, or is an adapter with one cable.
type Request struct {
	Verb   string        `json:"verb"`
	Args   []string      `json:"args,omitempty"`
	SL     *uint8        `json:"sl,omitempty"`     // of trace, deadlock and load; nil for the one that the manager gives out
	Still  time.Duration `json:"still,omitempty"`  // of deadlock: lanes that lack credit for so long stand still; 0 is a millisecond
	Faults *Faults       `json:"faults,omitempty"` // of faults
	Load   *LoadRequest  `json:"load,omitempty"`   // of load
	Levels []int         `json:"levels,omitempty"` // of stall: service levels of which the adapters take no packets

	SourcePort uint16 `json:"source_port,omitempty"` // of trace on Ethernet: of UDP, by which switches choose paths
}

// A Reply has the answer of one verb.
type Reply struct {
	Now      time.Duration `json:"now"`     // of the fabric, in nanoseconds since its start
	Network  string        `json:"network"` // InfiniBand or Ethernet
	Status   *Status       `json:"status,omitempty"`
	Ports    []Port        `json:"ports,omitempty"`
	Links    []Link        `json:"links,omitempty"` // also of the verbs that change cables: those that they changed
	Routes   *Routes       `json:"routes,omitempty"`
	Trace    *Trace        `json:"trace,omitempty"`
	Counters []Counters    `json:"counters,omitempty"`
	Deadlock *Deadlock     `json:"deadlock,omitempty"`
	Loads    []Load        `json:"loads,omitempty"`
	Stalled  []Stalled     `json:"stalled,omitempty"`
}

// Do answers a request. The manager is that of the fabric's own, nil without one.
func Do(now time.Duration, s *subnet.Subnet, m *sm.Manager, r Request) (Reply, error) {
	c := newView(now, s, m)
	reply := Reply{Now: now, Network: InfiniBand}
	verb, err := r.verb()
	if err != nil {
		return reply, err
	}
	return reply, verb.do(c, &r, &reply)
}

// verb returns the verb of a request whose arguments have the right number.
func (r *Request) verb() (v verb, err error) {
	v, ok := verbs[r.Verb]
	if !ok {
		return v, fmt.Errorf("the fabric does not know the request %q: expected one of its own version", r.Verb)
	}
	if n := len(r.Args); n < v.least || n > v.most {
		return v, fmt.Errorf("%s: expected %d to %d arguments, found %d", r.Verb, v.least, v.most, n)
	}
	return v, nil
}

// Answer is Do for a request and a reply in JSON.
func Answer(now time.Duration, s *subnet.Subnet, m *sm.Manager, question []byte) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(question, &r); err != nil {
		return nil, fmt.Errorf("request of a command: %w", err)
	}
	reply, err := Do(now, s, m, r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&reply)
}

// maxArgs is the most arguments of a request, which bounds the length of a reply.
const maxArgs = 256

// A verb is how an InfiniBand subnet answers one.
type verb struct {
	least, most int // arguments
	do          func(c *view, r *Request, reply *Reply) error
}

var verbs = map[string]verb{
	VerbStatus:   {0, 0, (*view).status},
	VerbPorts:    {0, 0, (*view).ports},
	VerbLinks:    {0, maxArgs, (*view).links},
	VerbRoutes:   {1, 1, (*view).routes},
	VerbTrace:    {2, 2, (*view).trace},
	VerbCounters: {0, maxArgs, (*view).counters},
	VerbDeadlock: {0, 0, (*view).deadlock},
	VerbFaults:   {0, maxArgs, (*view).faults},
	VerbLinkDown: {1, maxArgs, (*view).linkDown},
	VerbLinkUp:   {1, maxArgs, (*view).linkUp},
	VerbLoad:     {0, 2, (*view).load},
	VerbStall:    {0, maxArgs, (*view).stall},
	VerbFail:     {1, maxArgs, (*view).fail},
	VerbRepair:   {1, maxArgs, (*view).repair},
	VerbManager:  {1, 1, (*view).setManager},
}

// A view is a subnet while it answers one request.
type view struct {
	*subnet.Subnet
	directory
	now     time.Duration
	manager *sm.Manager
}

// A directory finds nodes and ports by their names.
type directory struct {
	fabric *topology.Fabric
	names  []string                  // by node
	trunk  func(topology.End) string // what the trunk of a port leads to, "" if it has none
}

func newView(now time.Duration, s *subnet.Subnet, m *sm.Manager) *view {
	f := s.Fabric()
	trunk := func(e topology.End) string {
		if t := s.Trunk(e); t != nil {
			return t.String()
		}
		return ""
	}
	return &view{Subnet: s, directory: directory{f, f.Names(), trunk}, now: now, manager: m}
}

func (d *directory) isSwitch(node int) bool { return d.fabric.Nodes[node].Kind == topology.Switch }

// endName is the name of a port as requests take it.
func (d *directory) endName(e topology.End) string { return portName(d.names[e.Node], e.Port) }

// find reads NODE or NODE:PORT. The port is 0 if there is none.
func (d *directory) find(name string) (node, port int, err error) {
	if whole, number, ok := topology.CutPort(name); ok {
		if node, err = d.fabric.Find(whole); err == nil {
			if n := d.fabric.Nodes[node].NumPorts(); number < 1 || number > n {
				return 0, 0, fmt.Errorf("%s: expected a port from 1 to %d, found %d", whole, n, number)
			}
			return node, number, nil
		}
	}
	node, err = d.fabric.Find(name)
	return node, 0, err
}

// findPort reads the name of a port that may have a cable.
func (c *directory) findPort(name string) (topology.End, error) {
	node, port, err := c.find(name)
	if err != nil || port > 0 {
		return topology.End{Node: node, Port: port}, err
	}
	return c.onlyPort(name, node)
}

// onlyPort returns the port of a node that is named without a port: the only one, or the only
// one of an adapter that has a cable.
func (c *directory) onlyPort(name string, node int) (topology.End, error) {
	ports := c.portsOf(node)
	switch n := c.fabric.Nodes[node].NumPorts(); {
	case n == 1:
		return topology.End{Node: node, Port: 1}, nil
	case len(ports) == 0:
		return topology.End{}, fmt.Errorf("%s has %d ports, none with a cable: expected one of them, like %s:1", name, n, name)
	case len(ports) > 1 || c.isSwitch(node):
		return topology.End{}, fmt.Errorf("%s has %d ports: expected one of them, like %s", name, n, c.endName(ports[0]))
	}
	return ports[0], nil
}

// findEndPort reads the name of a port that has LIDs: port 0 of a switch, or an adapter's.
func (c *directory) findEndPort(name string) (topology.End, error) {
	node, port, err := c.find(name)
	switch {
	case err != nil:
		return topology.End{}, err
	case c.isSwitch(node) && port > 0:
		return topology.End{}, fmt.Errorf("%s: expected a switch without a port, or a port of an adapter", name)
	case c.isSwitch(node) || port > 0:
		return topology.End{Node: node, Port: port}, nil
	}
	return c.onlyPort(name, node)
}

// findCable reads the name of a port that has a cable.
func (c *directory) findCable(name string) (topology.End, error) {
	e, err := c.findPort(name)
	if err == nil && !c.hasCable(e) {
		return e, fmt.Errorf("%s has no cable", c.endName(e))
	}
	return e, err
}

func (d *directory) findSwitch(name string) (int, error) {
	node, err := d.fabric.Find(name)
	if err == nil && !d.isSwitch(node) {
		return node, fmt.Errorf("%s is not a switch", name)
	}
	return node, err
}

// each calls do for each argument that find reads, after it has read all.
func each[T any](args []string, find func(string) (T, error), do func(T)) error {
	var list []T
	var errs []error
	for _, a := range args {
		x, err := find(a)
		list, errs = append(list, x), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, x := range list {
		do(x)
	}
	return nil
}

// portName is the name of a port as requests take it.
func portName(node string, port int) string { return node + ":" + strconv.Itoa(port) }
