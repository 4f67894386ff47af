package drawing

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"softrdma/internal/fabric/control"
	"softrdma/internal/topology"
)

var shapes = []string{"star:8", "fat-tree:k=4", "fat-tree:k=8", "fat-tree:k=4,levels=2", "ring:6", "ring:5,hosts=3", "torus:4x4", "torus:3x3x3",
	"torus:2x2x2x2", "mesh:4x3,hosts=2", "hyperx:4x4,hosts=2", "dragonfly:routers=4,global=2,hosts=2,groups=9", "ring:2,hosts=0",
	"leaf-spine:leaves=8,spines=3,hosts=6", "leaf-spine:leaves=4,spines=2,hosts=4,links=2"}

// picture has the nodes and cables of a generated fabric.
func picture(t *testing.T, shape string) *Picture {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	p := &Picture{Title: shape}
	for i := range f.Nodes {
		n := control.Node{Name: f.Nodes[i].Description, Kind: "adapter", GUID: f.Nodes[i].GUID, Ports: f.Nodes[i].NumPorts(), Active: 1}
		if f.Nodes[i].Kind == topology.Switch {
			n.Kind = "switch"
		}
		p.Nodes = append(p.Nodes, n)
		for number := 1; number <= n.Ports; number++ {
			if peer := f.Nodes[i].Ports[number].Peer; peer.Port != 0 && i < peer.Node {
				p.Links = append(p.Links, control.Link{State: control.LinkActive, Width: "4x", Speed: "EDR", Rate: 1e11, Ends: [2]control.LinkEnd{
					{Name: f.PortName(n.Name, topology.End{Node: i, Port: number}), Node: n.Name, Port: number, Switch: n.Kind == "switch"},
					{Name: f.PortName(f.Nodes[peer.Node].Description, peer), Node: f.Nodes[peer.Node].Description, Port: peer.Port, Switch: f.Nodes[peer.Node].Kind == topology.Switch},
				}})
			}
		}
	}
	return p
}

func TestNodesDoNotLieOnOneAnother(t *testing.T) {
	for _, shape := range shapes {
		g := newGraph(picture(t, shape))
		l := g.place()
		for i, p := range l.at {
			if p.x < -1e-9 || p.y < -1e-9 || p.x > l.width+1e-9 || p.y > l.height+1e-9 {
				t.Errorf("%s: %s lies outside, at %v of %v x %v", shape, g.nodes[i].Name, p, l.width, l.height)
			}
			for k := range i {
				least := 0.2
				if g.isSwitch(i) && g.isSwitch(k) {
					least = 0.7
				}
				if d := p.distance(l.at[k]); d < least {
					t.Errorf("%s: %s and %s are %.2f apart", shape, g.nodes[i].Name, g.nodes[k].Name, d)
				}
			}
		}
	}
}

func TestLayoutFollowsTheShape(t *testing.T) {
	at := func(shape, name string) point {
		g := newGraph(picture(t, shape))
		l := g.place()
		for i := range g.nodes {
			if g.nodes[i].Name == name {
				return l.at[i]
			}
		}
		t.Fatalf("%s has no %s", shape, name)
		return point{}
	}
	tree := "fat-tree:k=4"
	core, spine, leaf, host := at(tree, "core-0-0").y, at(tree, "spine-3-0").y, at(tree, "leaf-1-1").y, at(tree, "node-7").y
	if !(core < spine && spine < leaf && leaf < host) || at(tree, "leaf-3-0").y != leaf {
		t.Errorf("levels of a fat tree: %v %v %v %v", core, spine, leaf, host)
	}
	if a, b := at("torus:4x4", "switch-2-1"), at("torus:4x4", "switch-2-3"); a.y != b.y || a.x >= b.x {
		t.Errorf("points of a torus: %v and %v", a, b)
	}
	ring := newGraph(picture(t, "ring:6"))
	order := ring.ringOrder()
	for i, s := range order {
		if next := order[(i+1)%6]; ring.near[s][0] != next && ring.near[s][1] != next {
			t.Errorf("%d does not follow %d in a ring", next, s)
		}
	}
}

func TestSVGIsWellFormedAndNamesAll(t *testing.T) {
	for _, shape := range shapes {
		p := picture(t, shape)
		p.All = true
		disturb(p)
		b := SVG(p)
		d := xml.NewDecoder(bytes.NewReader(b))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", shape, err)
			}
		}
		for _, n := range p.Nodes {
			if !bytes.Contains(b, []byte(">"+n.Name+"<")) {
				t.Errorf("%s: %s is not named", shape, n.Name)
			}
		}
		if n := bytes.Count(b, []byte(" discards")); n < 2*len(p.Links) {
			t.Errorf("%s: %d ends described, expected two of each of %d links", shape, n, len(p.Links))
		}
	}
}

// disturb gives the first links load, errors, faults and a cut.
func disturb(p *Picture) {
	p.Links[0].Ends[0].Load = 0.42
	p.Links[0].Ends[1].Errors = 3
	if len(p.Links) > 3 {
		p.Links[1].State = control.LinkCut
		p.Links[2].Faults = &control.Faults{BitErrors: 1e-6}
		p.Links[3].State = control.LinkInit
	}
	p.Deadlock = []control.Channel{{Node: p.Links[0].Ends[1].Node, Port: p.Links[0].Ends[1].Port, VL: 3}}
}

func TestSVGShowsLoadErrorsAndCuts(t *testing.T) {
	p := picture(t, "star:8")
	before := string(SVG(p))
	disturb(p)
	after := string(SVG(p))
	for _, want := range []string{"42%", `fill="#fff" text-anchor="middle">!<`, `stroke="` + colorFault, "cut, 4x EDR", `stroke="#c0262c" stroke-width="6.0"`, ">deadlock<"} {
		if strings.Contains(before, want) || !strings.Contains(after, want) {
			t.Errorf("%q: without trouble %v, with %v", want, strings.Contains(before, want), strings.Contains(after, want))
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	p := picture(t, "star:2")
	p.Title, p.Nodes[0].Name = `<script>"&`, `<b>&"`
	for i := range p.Links {
		p.Links[i].Ends[0].Node = p.Nodes[0].Name
	}
	if b := SVG(p); bytes.Contains(b, []byte("<script")) || bytes.Contains(b, []byte("<b>")) || xml.Unmarshal(b, new(struct{})) != nil {
		t.Errorf("%s", b)
	}
}

func TestTerminalFitsItsColumns(t *testing.T) {
	for _, shape := range shapes {
		for _, columns := range []int{48, 100} {
			p := picture(t, shape)
			p.Title = "fabric fab0: 20 switches, 16 adapters"
			disturb(p)
			text := Terminal(p, columns, false)
			picture, notes := text, ""
			if at := strings.LastIndex(text, "\n\n"); at > 0 {
				picture, notes = text[:at], text[at:]
			}
			for i, line := range strings.Split(picture, "\n") {
				if n := utf8.RuneCountInString(line); n > columns {
					t.Errorf("%s: line %d has %d of %d columns", shape, i, n, columns)
				}
			}
			if strings.Contains(text, "\x1b") || len(p.Links) > 3 && !strings.Contains(notes, "cut\n") {
				t.Errorf("%s: %s", shape, text)
			}
		}
	}
	p := picture(t, "star:4")
	disturb(p)
	text := Terminal(p, 80, true)
	for _, want := range []string{"[switch-0]", "●node-3", yellow, red, fmt.Sprintf("%.1f %% of 4x EDR", 42.0)} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A text is at least half as wide as it is high for each character.
func TestSVGTextsAreInsideAndBoxesApart(t *testing.T) {
	text := regexp.MustCompile(`<text x="([\d.-]+)" y="[\d.-]+" font-size="(\d+)"([^>]*)>([^<]*)<`)
	box := regexp.MustCompile(`<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)"`)
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, shape := range append(large, shapes...) {
		p := picture(t, shape)
		p.Title = "fabric fab0: 1000 switches, 1000 adapters, 4000 links (1250 active, 2750 armed)"
		b := string(SVG(p))
		size := number(regexp.MustCompile(`width="(\d+)"`).FindStringSubmatch(b)[1])
		for _, m := range text.FindAllStringSubmatch(b, -1) {
			from, width := number(m[1]), number(m[2])/2*float64(utf8.RuneCountInString(html.UnescapeString(m[4])))
			switch {
			case strings.Contains(m[3], "rotate"):
				continue
			case strings.Contains(m[3], `"middle"`):
				from -= width / 2
			case strings.Contains(m[3], `"end"`):
				from -= width
			}
			if from < 0 || from+width > size {
				t.Errorf("%s: %q is at %.0f to %.0f of %.0f", shape, m[4], from, from+width, size)
			}
		}
		boxes := box.FindAllStringSubmatch(b, -1)
		for i, m := range boxes {
			for _, o := range boxes[:i] {
				left, right := m, o
				if number(o[1]) < number(m[1]) {
					left, right = o, m
				}
				if math.Abs(number(m[2])-number(o[2])) < 20 && number(right[1]) < number(left[1])+number(left[3]) {
					t.Errorf("%s: a box at %s, %s lies on one at %s, %s", shape, m[1], m[2], o[1], o[2])
				}
			}
		}
	}
}
