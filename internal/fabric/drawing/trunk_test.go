package drawing

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"softrdma/internal/fabric/control"
)

// withTrunks adds two trunks to the first switch, one of which is down.
func withTrunks(p *Picture) *Picture {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Kind == "switch" {
			for k, state := range []string{control.LinkActive, control.LinkDown} {
				port, far := n.Ports+1+k, []string{"b/p1-switch-0:3", "192.0.2.1:7700"}[k]
				p.Links = append(p.Links, control.Link{State: state, Width: "4x", Speed: "EDR", Rate: 1e11, Ends: [2]control.LinkEnd{
					{Name: fmt.Sprintf("%s:%d", n.Name, port), Node: n.Name, Port: port, Switch: true, Load: 0.37}, {Name: far, Node: far},
				}})
			}
			break
		}
	}
	return p
}

func TestTrunksLieBesideTheirSwitch(t *testing.T) {
	for _, shape := range shapes {
		plain, g := newGraph(picture(t, shape)), newGraph(withTrunks(picture(t, shape)))
		before, l := plain.place(), g.place()
		if l.tree != before.tree || len(g.nodes) != len(plain.nodes)+2 || len(g.edges) != len(plain.edges)+2 {
			t.Errorf("%s: a tree %v, before %v; %d nodes, %d links", shape, l.tree, before.tree, len(g.nodes), len(g.edges))
		}
		for i, p := range l.at {
			if p.x < -1e-9 || p.y < -1e-9 || p.x > l.width+1e-9 || p.y > l.height+1e-9 {
				t.Errorf("%s: %s lies outside, at %v of %v x %v", shape, g.nodes[i].Name, p, l.width, l.height)
			}
			for k := range i {
				if d := p.distance(l.at[k]); d < 0.1 {
					t.Errorf("%s: %s and %s are %.2f apart", shape, g.nodes[i].Name, g.nodes[k].Name, d)
				}
			}
		}
	}
}

func TestTrunksAreDrawnWithWhereTheyLead(t *testing.T) {
	for _, shape := range []string{"star:8", "fat-tree:k=4"} {
		p := withTrunks(picture(t, shape))
		svg, text := string(SVG(p)), Terminal(p, 100, false)
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
		for _, want := range []string{"<title>trunk to b/p1-switch-0:3</title>", ">192.0.2.1:7700<", "37%", " – b/p1-switch-0:3: active, 4x EDR; "} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: no %q in the drawing", shape, want)
			}
		}
		if strings.Contains(svg, "b/p1-switch-0:3 sends") {
			t.Errorf("%s: the drawing knows what the other fabric sends", shape)
		}
		for _, want := range []string{"○b/p1-switch-0:3", "→ b/p1-switch-0:3: 37.0 % of 4x EDR", " – 192.0.2.1:7700: down"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", shape, want, text)
			}
		}
	}
}
