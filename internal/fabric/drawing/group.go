package drawing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/fabric/control"
)

// Large fabrics are drawn by groups: a node stands for the switches of a pod on one level, of a
// group of a dragonfly, or of a plane of a grid, and another one for all their adapters. A line
// stands for all links between two groups.

// groupName returns the name of a switch without its last number: "leaf-2-1" is in the group
// "leaf-2". ok is false if the name does not have two numbers.
func groupName(name string) (group string, ok bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 || !isNumber(name[at+1:]) {
		return "", false
	}
	rest := name[:at]
	at = strings.LastIndexByte(rest, '-')
	return rest, at >= 0 && isNumber(rest[at+1:])
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// planeName is groupName for a grid, of which all switches with the same first coordinate are a
// group.
func planeName(name string) (group string, ok bool) {
	group, ok = groupName(name)
	for next, more := groupName(group); ok && more; next, more = groupName(group) {
		group = next
	}
	return group, ok
}

// groupOf returns what the switches of a group have in common: the name, or the neighbors where
// names tell nothing.
func (g *graph) groupOf(s int) string {
	if name, ok := planeName(g.nodes[s].Name); ok {
		return name
	}
	if len(g.near[s]) == 0 {
		return g.nodes[s].Name
	}
	return g.neighbors(s)
}

// neighbors tells apart switches with different neighbors.
func (g *graph) neighbors(s int) string {
	return fmt.Sprint(len(g.hosts[s]) > 0, slices.Sorted(slices.Values(g.near[s])))
}

// group returns the graph of the groups. If that has more than a number of links between switches,
// groups with the same neighbors become one.
func (g *graph) group(mostLinks int) *graph {
	c := g.collapse(g.groupOf)
	links := 0
	for s := range c.near {
		links += len(c.near[s])
	}
	if links/2 > mostLinks {
		c = c.collapse(c.neighbors)
	}
	return c
}

// collapse returns the graph whose nodes are the switches with the same key, and their adapters.
func (g *graph) collapse(key func(s int) string) *graph {
	c := &graph{grouped: true}
	var members [][]int
	to := make([]int, len(g.nodes)) // the group of each node
	groups := make(map[string]int)
	add := func(key string, member int) {
		at, ok := groups[key]
		if !ok {
			at = len(c.nodes)
			groups[key] = at
			c.nodes = append(c.nodes, control.Node{Kind: g.nodes[member].Kind, GUID: g.nodes[member].GUID})
			c.near, c.hosts, c.home = append(c.near, nil), append(c.hosts, nil), append(c.home, -1)
			c.count = append(c.count, 0)
			members = append(members, nil)
		}
		to[member] = at
		members[at] = append(members[at], member)
		c.count[at] += g.size(member)
		n := &c.nodes[at]
		n.Ports, n.Cables, n.Active = n.Ports+g.nodes[member].Ports, n.Cables+g.nodes[member].Cables, n.Active+g.nodes[member].Active
	}
	for _, s := range g.switches() {
		add("switch "+key(s), s)
	}
	for i := range g.nodes {
		switch {
		case g.isSwitch(i):
		case g.isTrunk(i):
			add(fmt.Sprint("trunk ", i), i)
		case g.home[i] < 0:
			add("alone", i)
		default:
			add(fmt.Sprint("adapters ", to[g.home[i]]), i)
		}
	}
	for i := range c.nodes {
		c.nodes[i].Name = g.nameOf(members[i], c.count[i])
	}
	c.merge(g, to)
	return c
}

// size is the number of nodes that a node stands for.
func (g *graph) size(i int) int {
	if g.count == nil {
		return 1
	}
	return g.count[i]
}

// nameOf is the name of a group: what the names of its members begin with.
func (g *graph) nameOf(members []int, count int) string {
	first := &g.nodes[members[0]]
	switch {
	case count == 1 || len(members) == 1 && first.Kind == "switch":
		return first.Name
	case first.Kind != "switch":
		return fmt.Sprintf("%d adapters", count)
	}
	common := first.Name
	for _, m := range members {
		for !strings.HasPrefix(g.nodes[m].Name, common) {
			common = common[:len(common)-1]
		}
	}
	if at := strings.LastIndexByte(common, '-'); at > 0 {
		return common[:at+1] + "*"
	}
	return fmt.Sprintf("%s +%d", first.Name, len(members)-1)
}

// merge joins the groups by the links of g.
func (c *graph) merge(g *graph, to []int) {
	at := make(map[[2]int]int)
	for i := range g.edges {
		e := &g.edges[i]
		a, b := to[e.ends[0]], to[e.ends[1]]
		if a == b {
			continue
		}
		swap := 0
		if a > b {
			a, b, swap = b, a, 1
		}
		k, ok := at[[2]int{a, b}]
		if !ok {
			k = len(c.edges)
			at[[2]int{a, b}] = k
			merged := *e.link
			if e.all != nil {
				merged.State = control.LinkActive
			}
			merged.Faults = nil
			for end := range merged.Ends {
				merged.Ends[end] = control.LinkEnd{Name: c.nodes[[2]int{a, b}[end]].Name}
			}
			c.edges = append(c.edges, edge{ends: [2]int{a, b}, link: &merged})
			if g.isTrunk(e.ends[0]) || g.isTrunk(e.ends[1]) {
				c.home[b] = a
			} else {
				c.join(a, b)
				c.join(b, a)
			}
		}
		x := &c.edges[k]
		if e.all == nil {
			x.all = append(x.all, e.link)
		}
		x.all = append(x.all, e.all...)
		x.link.State = worse(x.link.State, e.link.State)
		if e.link.Faults != nil {
			x.link.Faults = e.link.Faults
		}
		for end := range x.link.Ends {
			own, of := &x.link.Ends[end], &e.link.Ends[end^swap]
			own.Load = max(own.Load, of.Load)
			own.Errors, own.Discards = own.Errors+of.Errors, own.Discards+of.Discards
		}
	}
}

// worse is the state of several links: that of the one in most trouble.
func worse(a, b string) string {
	order := []string{control.LinkActive, control.LinkArmed, control.LinkInit, control.LinkDown, control.LinkCut}
	return order[max(slices.Index(order, a), slices.Index(order, b), 0)]
}

// placeGroups places the groups of a dragonfly, or of what else has switches in groups, each as a
// circle of its own.
func (g *graph) placeGroups(l *layout) bool {
	var order []string
	groups := make(map[string][]int)
	for _, s := range g.switches() {
		name, ok := groupName(g.nodes[s].Name)
		if !ok {
			return false
		}
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], s)
	}
	most, hosts := 0, 1
	for _, members := range groups {
		most = max(most, len(members))
		for _, s := range members {
			hosts = max(hosts, len(g.hosts[s]))
		}
	}
	if len(order) < 3 || most < 2 {
		return false
	}
	small := max(1, float64(most)/(2*math.Pi)*1.3)
	large := max(2*small, float64(len(order))*(2*small+2.4)/(2*math.Pi))
	for i, name := range order {
		turn := float64(i) / float64(len(order))
		center := polar(large, turn)
		for k, s := range groups[name] {
			own := turn + (float64(k)+0.5)/float64(len(groups[name]))
			l.at[s] = center.add(polar(small, own))
			for j, h := range g.hosts[s] {
				beside := 0.5 * (float64(j) - float64(len(g.hosts[s])-1)/2) / (2 * math.Pi * (small + 0.6))
				l.at[h] = center.add(polar(small+0.6, own+beside))
			}
		}
	}
	return true
}
