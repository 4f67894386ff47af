package drawing

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"softrdma/internal/fabric/control"
)

var large = []string{"fat-tree:k=14", "fat-tree:k=20", "dragonfly:routers=4,global=2,hosts=2", "dragonfly:routers=8,global=4,hosts=4", "torus:8x8x8", "torus:4x4x4", "torus:16x16", "star:200", "ring:100"}

func TestTerminalNamesDoNotCoverEachOther(t *testing.T) {
	for _, shape := range append(large, shapes...) {
		for _, columns := range []int{80, 132} {
			text := Terminal(picture(t, shape), columns, false)
			for i, line := range strings.Split(text, "\n") {
				rest := line
				for rest != "" && i > 0 {
					at := strings.IndexAny(rest, "[]")
					if at < 0 {
						break
					}
					name, after, whole := strings.Cut(rest[at+1:], "]")
					if rest[at] != '[' || !whole || name == "" || strings.ContainsAny(name, "[●") {
						t.Errorf("%s: line %d has a name in parts: %s", shape, i, line)
						break
					}
					rest = after
				}
			}
			if n := strings.Count(text, "\n"); n > mostRows+6 {
				t.Errorf("%s: %d lines", shape, n)
			}
		}
	}
}

func TestLargeFabricsAreDrawnByGroups(t *testing.T) {
	for _, c := range []struct {
		shape string
		want  []string
	}{
		{"fat-tree:k=14", []string{">core-*<", ">spine-13-*<", ">leaf-0-*<", ">49 adapters<", "49 links spine-0-* – leaf-0-*: 49 active"}},
		{"dragonfly:routers=8,global=4,hosts=4", []string{">router-32-*<", ">32 adapters<"}},
		{"torus:8x8x8", []string{">switch-7-*<", ">64 adapters<"}},
		{"star:200", []string{">switch-0<", ">200 adapters<"}},
	} {
		p := picture(t, c.shape)
		b := SVG(p)
		for _, want := range append(c.want, groupedTitle) {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s: %q is missing", c.shape, want)
			}
		}
		if err := xml.Unmarshal(b, new(struct{})); err != nil || len(b) > 300_000 {
			t.Errorf("%s: %d bytes, %v", c.shape, len(b), err)
		}
		p.All = true
		if b := SVG(p); bytes.Contains(b, []byte(groupedTitle)) || !bytes.Contains(b, []byte(">node-0<")) {
			t.Errorf("%s: all nodes are asked for, groups are drawn", c.shape)
		}
	}
}

func TestGroupsKeepLoadErrorsAndTheWorstState(t *testing.T) {
	p := picture(t, "fat-tree:k=14")
	var cut, loaded *control.Link
	for i := range p.Links {
		switch l := &p.Links[i]; {
		case strings.HasPrefix(l.Ends[0].Node, "core-0-") && strings.HasPrefix(l.Ends[1].Node, "spine-3-") && cut == nil:
			cut = l
		case strings.HasPrefix(l.Ends[0].Node, "spine-2-") && strings.HasPrefix(l.Ends[1].Node, "leaf-2-"):
			loaded = l
		}
	}
	cut.State = control.LinkCut
	loaded.Ends[0].Load, loaded.Ends[1].Errors = 0.5, 7
	g := newGraph(p).group(manyJoined)
	found := 0
	for i := range g.edges {
		e := &g.edges[i]
		switch a, b := e.link.Ends[0].Name, e.link.Ends[1].Name; {
		case a == "core-*" && b == "spine-3-*":
			found++
			if e.link.State != control.LinkCut {
				t.Errorf("%s – %s: %s", a, b, e.link.State)
			}
		case a == "spine-2-*" && b == "leaf-2-*":
			found++
			if e.link.State != control.LinkActive || e.link.Ends[0].Load != 0.5 || e.link.Ends[1].Load != 0 || e.link.Ends[1].Errors != 7 || len(e.all) != 49 {
				t.Errorf("%s – %s: %+v, %d links", a, b, e.link, len(e.all))
			}
		case e.link.State != control.LinkActive:
			t.Errorf("%s – %s: %s", a, b, e.link.State)
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 groups of links found", found)
	}
}

func TestBentLinksStayInside(t *testing.T) {
	for _, shape := range []string{"torus:4x4", "torus:3x3x3", "hyperx:4x4,hosts=2", "torus:8x8"} {
		g := newGraph(picture(t, shape))
		l := g.place()
		for i := range g.edges {
			e := &g.edges[i]
			a, b := l.at[e.ends[0]], l.at[e.ends[1]]
			for _, at := range []float64{0.25, 0.5, 0.75} {
				if p := on(a, controlPoint(a, b, e.bend), b, at); p.x < -0.01 || p.y < -0.01 || p.x > l.width+0.01 || p.y > l.height+0.01 {
					t.Errorf("%s: a link from %v to %v passes %v, outside of %v x %v", shape, a, b, p, l.width, l.height)
				}
			}
		}
	}
}
