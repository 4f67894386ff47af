package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// star is one switch with hosts.
func star(g *generator) {
	n := g.number("", 1, MaxPorts, 0)
	if g.err != nil {
		return
	}
	g.addHosts(g.addSwitch("switch-0", n), n)
}

// fatTree is the folded Clos network of k-port switches (Al-Fares et al., 2008):
// with two levels, k leaf switches below k/2 spine switches; with three, k pods
// of k/2 leaf and k/2 spine switches below (k/2)² core switches.
func fatTree(g *generator) {
	k := g.number("k", 2, MaxPorts, 0)
	if k%2 != 0 {
		g.failf("expected an even k; found %d", k)
	}
	levels := g.number("levels", 2, 3, 3)
	half := k / 2
	hosts := g.number("hosts", 1, MaxPorts-half, half)
	leaves, spines, cores := k, half, 0
	if levels == 3 {
		leaves, spines, cores = k*half, k*half, half*half
	}
	if g.err != nil || !g.checkPorts(half+hosts) || !g.checkSize(leaves+spines+cores, leaves*hosts) {
		return
	}
	var leaf []int
	if levels == 2 {
		leaf = fatTreeTwo(g, k, hosts)
	} else {
		leaf = fatTreeThree(g, k, hosts)
	}
	for _, l := range leaf {
		g.addHosts(l, hosts)
	}
}

// fatTreeTwo adds the switches of two levels and returns the leaves.
func fatTreeTwo(g *generator, k, hosts int) (leaf []int) {
	var spine []int
	for i := range k / 2 {
		spine = append(spine, g.addSwitch(fmt.Sprintf("spine-%d", i), k))
	}
	for i := range k {
		leaf = append(leaf, g.addSwitch(fmt.Sprintf("leaf-%d", i), k/2+hosts))
	}
	for _, l := range leaf {
		for _, s := range spine {
			g.connectSwitches(l, s)
		}
	}
	return leaf
}

// fatTreeThree adds the switches of three levels and returns the leaves.
func fatTreeThree(g *generator, k, hosts int) (leaf []int) {
	half := k / 2
	var core []int
	for i := range half * half {
		core = append(core, g.addSwitch(fmt.Sprintf("core-%d-%d", i/half, i%half), k))
	}
	for pod := range k {
		var spine []int
		for i := range half {
			s := g.addSwitch(fmt.Sprintf("spine-%d-%d", pod, i), k)
			spine = append(spine, s)
			for j := range half {
				g.connectSwitches(s, core[i*half+j])
			}
		}
		for i := range half {
			l := g.addSwitch(fmt.Sprintf("leaf-%d-%d", pod, i), half+hosts)
			leaf = append(leaf, l)
			for _, s := range spine {
				g.connectSwitches(l, s)
			}
		}
	}
	return leaf
}

// ring is a torus of one dimension.
func ring(g *generator) {
	g.params[""] = strconv.Itoa(g.number("", 2, maxGenerated, 0))
	g.grid(true)
}

// grid is a mesh, or a torus if it wraps. A dimension of two points has one link
// between them in both.
func (g *generator) grid(wrap bool) {
	dims, hosts := g.dimensions(), g.number("hosts", 0, MaxPorts-2*maxDimensions, 1)
	if g.err != nil {
		return
	}
	g.points(dims, 2*len(dims)+hosts, hosts)
	if g.err != nil {
		return
	}
	step := 1
	for d := len(dims) - 1; d >= 0; d-- {
		for s := range g.switches {
			c := s / step % dims[d]
			switch {
			case c+1 < dims[d]:
				g.connectSwitches(s, s+step)
			case wrap && dims[d] > 2:
				g.connectSwitches(s, s-step*c)
			}
		}
		step *= dims[d]
	}
	g.addHostsEverywhere(hosts)
}

// hyperX links all switches that differ in one coordinate (Ahn et al., 2009).
func hyperX(g *generator) {
	dims, hosts := g.dimensions(), g.number("hosts", 0, MaxPorts, 1)
	if g.err != nil {
		return
	}
	ports := hosts
	for _, d := range dims {
		ports += d - 1
	}
	g.points(dims, ports, hosts)
	if g.err != nil {
		return
	}
	step := 1
	for d := len(dims) - 1; d >= 0; d-- {
		for s := range g.switches {
			for to := s + step; to/(step*dims[d]) == s/(step*dims[d]); to += step {
				g.connectSwitches(s, to)
			}
		}
		step *= dims[d]
	}
	g.addHostsEverywhere(hosts)
}

// points adds a switch for each point of a grid, named by its coordinates.
func (g *generator) points(dims []int, ports, hosts int) {
	count := 1
	for _, d := range dims {
		count *= d
		if count > maxGenerated {
			g.checkSize(count, 0)
			return
		}
	}
	if !g.checkPorts(ports) || !g.checkSize(count, count*hosts) {
		return
	}
	for i := range count {
		c := make([]string, len(dims))
		for d, rest := len(dims)-1, i; d >= 0; d-- {
			c[d] = strconv.Itoa(rest % dims[d])
			rest /= dims[d]
		}
		g.addSwitch("switch-"+strings.Join(c, "-"), ports)
	}
}

func (g *generator) addHostsEverywhere(hosts int) {
	for s := range g.switches {
		g.addHosts(s, hosts)
	}
}

// Coordinates reads a switch's place in a grid from its description, as
// Generate names it: "switch-1-2-3" is at 1, 2, 3.
func Coordinates(description string) ([]int, bool) {
	rest, ok := strings.CutPrefix(description, "switch-")
	if !ok {
		return nil, false
	}
	var c []int
	for part := range strings.SplitSeq(rest, "-") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || len(c) == maxDimensions {
			return nil, false
		}
		c = append(c, n)
	}
	return c, true
}

// dragonfly has groups of fully linked switches (Kim et al., 2008). The global
// links of a group go to the other groups in turn, spread over its switches.
func dragonfly(g *generator) {
	a := g.number("routers", 1, MaxPorts, 0)
	h := g.number("global", 1, MaxPorts, 0)
	hosts := g.number("hosts", 0, MaxPorts, 1)
	groups := g.number("groups", 2, maxGenerated, a*h+1)
	if g.err != nil {
		return
	}
	if groups > a*h+1 {
		g.failf("expected %d groups at most, as %d routers with %d global links reach; found %d", a*h+1, a, h, groups)
	}
	if g.err != nil || !g.checkPorts(a-1+h+hosts) || !g.checkSize(groups*a, groups*a*hosts) {
		return
	}
	for group := range groups {
		for i := range a {
			g.addSwitch(fmt.Sprintf("router-%d-%d", group, i), a-1+h+hosts)
		}
	}
	for s := range g.switches {
		for to := s + 1; to/a == s/a; to++ {
			g.connectSwitches(s, to)
		}
	}
	// Every pair of groups has as many links as fit; link number n of a group
	// leaves from switch n mod a.
	each := a * h / (groups - 1)
	links := make([]int, groups)
	for range each {
		for from := range groups {
			for to := from + 1; to < groups; to++ {
				g.connectSwitches(from*a+links[from]%a, to*a+links[to]%a)
				links[from]++
				links[to]++
			}
		}
	}
	g.addHostsEverywhere(hosts)
}
