package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parse reads the parameters of a shape: at most one without a name, which is
// first, and the others as name=value.
func (g *generator) parse(text string, s *shape) error {
	g.params = make(map[string]string)
	for i, part := range strings.Split(text, ",") {
		if part == "" && text == "" {
			break
		}
		name, value, named := strings.Cut(part, "=")
		if !named {
			name, value = "", part
		}
		if _, twice := g.params[name]; twice || !named && i > 0 {
			return fmt.Errorf("expected each parameter once, as name=value; found %q", part)
		}
		g.params[name] = value
		var err error
		switch {
		case name == "width":
			g.host.width, err = ParseWidth(value)
		case name == "speed":
			g.host.speed, err = ParseSpeed(value)
		case name == "length":
			g.host.length, err = ParseLength(value)
		case name == "switch-speed":
			g.fabric.speed, err = ParseSpeed(value)
		case name == "switch-length":
			g.fabric.length, err = ParseLength(value)
		case slices.Contains(common, name):
		case !slices.Contains(s.params, name):
			names := slices.DeleteFunc(slices.Concat(s.params, common), func(n string) bool { return n == "" })
			err = fmt.Errorf("expected the parameters %s; found %q", strings.Join(names, ", "), part)
		}
		if err != nil {
			return err
		}
	}
	if err := g.parseCables(); err != nil {
		return err
	}
	g.part = g.number("part", 0, maxPart, 0)
	g.spare = g.number("spare", 0, MaxPorts-1, 0)
	return g.err
}

// common are the parameters that every shape knows.
var common = []string{"width", "speed", "length", "switch-speed", "switch-length", "failed", "seed", "part", "spare"}

// parseCables completes the cables: those between switches are like those of hosts if the text does
// not say more, and all links are of one kind.
func (g *generator) parseCables() error {
	if g.fabric.speed == 0 {
		g.fabric.speed = g.host.speed
	}
	if g.fabric.length == 0 {
		g.fabric.length = g.host.length
	}
	if g.host.speed.Ethernet() != g.fabric.speed.Ethernet() {
		return fmt.Errorf("expected links of one kind; found speed=%v and switch-speed=%v", g.host.speed, g.fabric.speed)
	}
	if g.host.speed.Ethernet() {
		if text, ok := g.params["width"]; ok {
			return fmt.Errorf("expected no width for links of Ethernet; found width=%s", text)
		}
		g.host.width = 1
	}
	g.fabric.width = g.host.width
	return nil
}

// number is a parameter within limits. least > otherwise means that the shape needs it.
func (g *generator) number(name string, least, most, otherwise int) int {
	text, ok := g.params[name]
	if !ok && otherwise >= least {
		return otherwise
	}
	label := name + "="
	if name == "" {
		label = "a number"
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		g.failf("expected %s from %d to %d; found %q", label, least, most, text)
		return least
	}
	return n
}

// dimensions reads "4x4x4".
func (g *generator) dimensions() []int {
	text := g.params[""]
	var dims []int
	for part := range strings.SplitSeq(text, "x") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 2 || n > maxGenerated || len(dims) == maxDimensions {
			g.failf("expected up to %d dimensions from 2 to %d like 4x4x4; found %q", maxDimensions, maxGenerated, text)
			return nil
		}
		dims = append(dims, n)
	}
	return dims
}
