package topology

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// leafSpine is a Clos network of two levels, of any number of switches.
func leafSpine(g *generator) {
	leaves := g.number("leaves", 1, maxGenerated, 0)
	links := g.number("links", 1, MaxPorts, 1)
	spines, hosts := g.oversubscribe(links)
	if g.err != nil || !g.checkPorts(links*leaves) || !g.checkPorts(links*spines+hosts) || !g.checkSize(leaves+spines, leaves*hosts) {
		return
	}
	for i := range spines {
		g.addSwitch(fmt.Sprintf("spine-%d", i), links*leaves)
	}
	for i := range leaves {
		l := g.addSwitch(fmt.Sprintf("leaf-%d", i), links*spines+hosts)
		for s := range spines {
			for range links {
				g.connectSwitches(l, s)
			}
		}
	}
	for i := range leaves {
		g.addHosts(spines+i, hosts)
	}
}

// oversubscribe returns the number of spines and of the hosts of a leaf. One that the text does not
// have is chosen so that the hosts are at most oversubscription= times as fast as the links to the
// spines.
func (g *generator) oversubscribe(links int) (spines, hosts int) {
	ratio, given := g.ratio()
	// What a host takes of one spine.
	host := float64(LinkRate(g.host.width, g.host.speed)) / (float64(links) * float64(LinkRate(g.fabric.width, g.fabric.speed)))
	_, hasSpines := g.params["spines"]
	_, hasHosts := g.params["hosts"]
	if hasSpines {
		spines = g.number("spines", 1, MaxPorts, 0)
	}
	if hasHosts {
		hosts = g.number("hosts", 1, MaxPorts, 0)
	}
	const slack = 1e-6 // of rates with a coding
	switch {
	case g.err != nil:
	case !hasSpines && !hasHosts:
		g.failf("expected spines= or hosts=; found neither")
	case !hasHosts:
		hosts = int(min(float64(spines)*ratio/host*(1+slack), MaxPorts+1))
		if hosts == 0 {
			g.failf("expected an oversubscription of at least %.3g, with which a leaf has one host; found %.3g", host/float64(spines), ratio)
		}
	case !hasSpines:
		spines = int(min(math.Ceil(float64(hosts)*host/ratio*(1-slack)), MaxPorts+1))
	case given:
		if is := float64(hosts) * host / float64(spines); math.Abs(is-ratio) > slack*ratio {
			g.failf("expected oversubscription=%.4g, as %d hosts and %d spines have it; found %.4g", is, hosts, spines, ratio)
		}
	}
	return spines, hosts
}

// maxRatio is the greatest oversubscription.
const maxRatio = 1000

// ratio reads oversubscription=, as "1.5" or "3:1".
func (g *generator) ratio() (ratio float64, given bool) {
	text, given := g.params["oversubscription"]
	if !given {
		return 1, false
	}
	ratio, err := strconv.ParseFloat(strings.TrimSuffix(text, ":1"), 64)
	if err != nil || !(ratio >= 1./maxRatio && ratio <= maxRatio) {
		g.failf("expected oversubscription= from %g to %d, like 3 or 3:1; found %q", 1./maxRatio, maxRatio, text)
		return 1, true
	}
	return ratio, true
}
