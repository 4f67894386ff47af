package topology

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var generated = []string{
	"star:1", "star:254", "ring:2", "ring:5,hosts=3", "mesh:4x4", "mesh:2x3x4,hosts=2", "torus:4x4x4", "torus:2x5,hosts=2,speed=NDR,width=12x",
	"hyperx:4x4,hosts=4", "hyperx:3x3x3", "dragonfly:routers=4,global=2,hosts=2", "dragonfly:routers=4,global=2,hosts=2,groups=3",
	"fat-tree:k=4,levels=2", "fat-tree:k=8", "fat-tree:k=6,hosts=7,speed=HDR",
	"leaf-spine:leaves=4,spines=2,hosts=8", "leaf-spine:leaves=3,hosts=6,links=2,oversubscription=3,speed=25G,switch-speed=100G,length=2.5m,switch-length=30m",
	"fat-tree:k=4,speed=1G,failed=7,seed=3", "star:3,speed=800G,length=0.01m", "ring:4,speed=10G,switch-speed=40G", "ring:4,speed=100M,switch-speed=10M",
}

func TestGeneratedFabricSurvivesWritingAndParsing(t *testing.T) {
	for _, text := range generated {
		for _, lids := range []bool{false, true} {
			f, err := Generate(text)
			if err != nil {
				t.Fatal(err)
			}
			if lids {
				if err := f.AssignLIDs(2); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Check(); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			back, _, err := Parse("net", string(f.Append(nil)))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if d := cmp.Diff(f, back); d != "" {
				t.Fatalf("%s: %s", text, d)
			}
		}
	}
}

func TestGenerateCounts(t *testing.T) {
	for _, c := range []struct {
		text                   string
		switches, hosts, links int
	}{
		{"star:8", 1, 8, 8},
		{"ring:4", 4, 4, 4 + 4},
		{"ring:2", 2, 2, 1 + 2},
		{"mesh:3x3", 9, 9, 12 + 9},
		{"torus:4x4x4", 64, 64, 3*64 + 64},
		{"hyperx:4x4,hosts=2", 16, 32, 2*4*6 + 32},
		{"dragonfly:routers=4,global=2,hosts=2", 36, 72, 9*6 + 36 + 72},
		{"fat-tree:k=4,levels=2", 6, 8, 8 + 8},
		{"fat-tree:k=8", 80, 128, 128 + 128 + 128},
		{"fat-tree:k=8,failed=100", 80, 128, 128 + 128 + 128 - 100},
		{"leaf-spine:leaves=4,spines=2,hosts=8", 6, 32, 8 + 32},
		{"leaf-spine:leaves=4,spines=2,links=3,hosts=8", 6, 32, 24 + 32},
		{"leaf-spine:leaves=2,spines=4", 6, 8, 8 + 8},
		{"leaf-spine:leaves=2,spines=4,oversubscription=3:1,speed=25G,switch-speed=100G", 6, 96, 8 + 96},
		{"leaf-spine:leaves=2,hosts=48,oversubscription=3,speed=25G,switch-speed=100G", 6, 96, 8 + 96},
		{"leaf-spine:leaves=2,hosts=49,oversubscription=3,speed=25G,switch-speed=100G", 7, 98, 10 + 98},
		{"leaf-spine:leaves=2,spines=1,oversubscription=1.5,speed=EDR,switch-speed=HDR", 3, 6, 2 + 6},
	} {
		f, err := Generate(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var switches, hosts, ends int
		for i := range f.Nodes {
			if f.Nodes[i].Kind == Switch {
				switches++
			} else {
				hosts++
			}
			for p := range f.Nodes[i].Ports {
				if f.Nodes[i].Ports[p].Connected() {
					ends++
				}
			}
		}
		if switches != c.switches || hosts != c.hosts || ends != 2*c.links {
			t.Errorf("%s: %d switches, %d hosts, %d links, expected %d, %d, %d", c.text, switches, hosts, ends/2, c.switches, c.hosts, c.links)
		}
	}
}

func TestGenerateRefusesWithExpectedAndFound(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `found ""`,
		"tree:k=8":                               `found "tree"`,
		"fat-tree":                               `expected k= from 2 to 254; found ""`,
		"fat-tree:k=7":                           "expected an even k; found 7",
		"fat-tree:k=8,levels=4":                  `expected levels= from 2 to 3; found "4"`,
		"fat-tree:k=8,k=8":                       `expected each parameter once, as name=value; found "k=8"`,
		"fat-tree:8":                             `expected the parameters k, levels, hosts, width, speed, length, switch-speed, switch-length, failed, seed, part, spare; found "8"`,
		"fat-tree:k=128":                         "expected 32768 nodes at most",
		"fat-tree:k=8,speed=warp":                `expected a speed of SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR, or of 10M, 100M, 1G, 10G, 25G, 40G, 50G, 100G, 200G, 400G or 800G, found "warp"`,
		"fat-tree:k=8,width=3":                   `expected a width of 1x, 2x, 4x, 8x or 12x, found "3"`,
		"torus:4x":                               `like 4x4x4; found "4x"`,
		"torus:1x4":                              `like 4x4x4; found "1x4"`,
		"torus:9999x9999x9999":                   "expected 32768 nodes at most",
		"torus:4x4,rows=3":                       `found "rows=3"`,
		"star:255":                               `expected a number from 1 to 254; found "255"`,
		"star:":                                  `expected a number from 1 to 254; found ""`,
		"ring:1":                                 `expected a number from 2 to 32768; found "1"`,
		"hyperx:200x200":                         "expected 32768 nodes at most",
		"hyperx:130x130":                         "expected switches of 1 to 254 ports, found 259",
		"dragonfly:routers=4,global=2,groups=10": "expected 9 groups at most, as 4 routers with 2 global links reach; found 10",
		"leaf-spine:leaves=4":                    "expected spines= or hosts=; found neither",
		"leaf-spine:spines=4,hosts=4":            `expected leaves= from 1 to 32768; found ""`,
		"leaf-spine:leaves=4,spines=1,speed=100G,switch-speed=10G":                       "expected an oversubscription of at least 10, with which a leaf has one host; found 1",
		"leaf-spine:leaves=4,spines=2,hosts=8,oversubscription=3":                        "expected oversubscription=4, as 8 hosts and 2 spines have it; found 3",
		"leaf-spine:leaves=4,spines=2,oversubscription=0":                                `like 3 or 3:1; found "0"`,
		"leaf-spine:leaves=4,spines=2,oversubscription=NaN":                              `like 3 or 3:1; found "NaN"`,
		"leaf-spine:leaves=255,spines=2":                                                 "expected switches of 1 to 254 ports, found 255",
		"leaf-spine:leaves=4,spines=254,oversubscription=999,speed=1G,switch-speed=800G": "expected switches of 1 to 254 ports, found 509",
		"leaf-spine:leaves=4,hosts=200,oversubscription=0.001":                           "expected switches of 1 to 254 ports, found 455",
		"star:4,speed=100G,width=4x":                                                     "expected no width for links of Ethernet; found width=4x",
		"ring:4,speed=100G,switch-speed=EDR":                                             "expected links of one kind; found speed=100G and switch-speed=EDR",
		"star:4,length=0":                                                                `expected a length from 0.01m to 100000m, found "0"`,
		"star:4,length=100001m":                                                          `expected a length from 0.01m to 100000m, found "100001m"`,
		"star:4,failed=1":                                                                "expected failed= from 0 to 0, as the other links between switches are needed to reach all of them; found 1",
		"ring:4,failed=2":                                                                "expected failed= from 0 to 1",
	} {
		if _, err := Generate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

func TestGenerateIsStable(t *testing.T) {
	f, err := Generate("torus:2x3")
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Find("switch-1-2")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Nodes[n]; got.GUID != switchGUIDs+5 || got.ID != "S-025dfa0001000005" {
		t.Fatalf("switch-1-2 is %s, GUID 0x%x", got.ID, got.GUID)
	}
	if c, ok := Coordinates("switch-1-2"); !ok || !cmp.Equal(c, []int{1, 2}) {
		t.Fatal(c, ok)
	}
}

func TestParseIbsimExample(t *testing.T) {
	f, _, err := Parse("net", `# remark
Switch	8 "Switch1"
[1]	"Hca1"
[3]	"Switch2"[3]	w=2 s=4
[5]	"Switch2"[5]

Switch 8 "Switch2"
# remark
[3]	"Switch1"[3]
[5]	"Switch1"[5]
[8]	"Hca2"[2]

Hca	2 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
`)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if p := f.Nodes[0].Ports[3]; p.Peer != (End{1, 3}) || p.Width != 4 || p.Speed != QDR {
		t.Fatal(p)
	}
	if p := f.Nodes[0].Ports[5]; p.Width != DefaultWidth || p.Speed != DefaultSpeed {
		t.Fatal(p)
	}
	if p := f.Nodes[3].Ports[2]; p.Peer != (End{1, 8}) {
		t.Fatal("the link that Switch2 mentions alone is missing")
	}
	// GUIDs count as ibsim's do.
	if f.Nodes[0].GUID != 0x200000 || f.Nodes[1].GUID != 0x200001 || f.Nodes[2].GUID != 0x100000 || f.Nodes[3].GUID != 0x100003 || f.Nodes[3].Ports[2].GUID != 0x100005 {
		t.Fatal(f.Nodes)
	}
}

func TestParseIbnetdiscoverOutput(t *testing.T) {
	text, err := os.ReadFile("testdata/ibnetdiscover.txt")
	if err != nil {
		t.Fatal(err)
	}
	f, warnings, err := Parse("ibnetdiscover.txt", string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Error(warnings)
	}
	n, err := f.Find("Hca1")
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Nodes[n].Ports[2]; p.LID != 4 || p.GUID != 0x100002 || p.Width != 4 || p.Speed != SDR || f.EndName(p.Peer) != "Switch1 port 2" {
		t.Fatalf("%+v", p)
	}
	if _, err := f.Find("0x0000000000200001"); err != nil {
		t.Fatal(err)
	}
	// What Append writes differs from the original only in comments.
	strip := func(s string) (lines []string) {
		for l := range strings.Lines(s) {
			if l[0] != '#' && l != "\n" {
				lines = append(lines, l)
			}
		}
		return lines
	}
	if d := cmp.Diff(strip(string(text)), strip(string(f.Append(nil)))); d != "" {
		t.Fatal(d)
	}
}

func TestParseRefusesByLineAndColumn(t *testing.T) {
	const two = "Switch 4 \"a\"\n[1] \"b\"[1]\n\nSwitch 4 \"b\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "# empty\n", `net:1:1: expected a node, like: Switch 8 "leaf-1", found the end of the file`},
		{"unknown line", "Swich 4 \"a\"\n", `net:1:1: expected a node (Switch, Ca, Rt), a port ([1] …), an attribute (switchguid=…) or a comment, found "Swich 4 \"a\""`},
		{"port without node", "[1] \"b\"[1]\n", `net:1:1: expected a node (Switch, Ca, Rt) before its ports, found "[1] \"b\"[1]"`},
		{"port behind an empty line", "Switch 4 \"a\"\n\n[1] \"b\"[1]\n", `net:3:1: expected a node (Switch, Ca, Rt) before its ports`},
		{"no ports", "Switch \"a\"\n", `net:1:8: expected a number of ports from 1 to 254, found "\"a\""`},
		{"too many ports", "Switch 255 \"a\"\n", `net:1:8: expected a number of ports from 1 to 254`},
		{"no ID", "Switch 4 a\n", `net:1:10: expected a node's ID in quotation marks, found "a"`},
		{"ID twice", two + "\nCa 1 \"a\"\n", `net:6:6: expected an ID that no other node has, found "a", which line 1 has`},
		{"GUID twice", "switchguid=0x10\nSwitch 4 \"a\"\nswitchguid=0x10\nSwitch 4 \"b\"\n", `net:4:10: expected a GUID that no other node has, found 0x0000000000000010, which the node of line 2 has`},
		{"peer's port beyond its count", "Switch 4 \"a\"\n[1] \"b\"[5]\n\nSwitch 4 \"b\"\n", `net:2:5: expected a port from 1 to 4, as node "b" has, found port 5`},
		{"port beyond the count", "Switch 4 \"a\"\n[5] \"b\"[1]\n", `net:2:1: expected a port from 1 to 4, as node "a" has, found port 5`},
		{"port 0", "Switch 4 \"a\"\n[0] \"b\"[1]\n", `net:2:1: expected a port from 1 to 254 in brackets`},
		{"port twice", "Switch 4 \"a\"\n[1] \"b\"[1]\n[1] \"b\"[2]\n\nSwitch 4 \"b\"\n", `net:3:1: expected each port of a node once, found port 1 again, after line 2`},
		{"peer's port twice", "Switch 4 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[1]\n\nSwitch 4 \"b\"\n", `net:3:5: expected a peer that no other link uses, found "b"[1], which line 2 links with a port 1`},
		{"contradiction", two + "[1] \"a\"[2]\n", `net:2:5: expected a link that both ends agree on: line 5 links b port 1 with "a"[2], found "b"[1]`},
		{"itself", "Switch 4 \"a\"\n[1] \"a\"[1]\n", `net:2:5: expected a link between two ports, found port 1 linked with itself`},
		{"bad speed", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 1 4xFAST\n", `net:2:24: expected a link like 4xEDR or 100G behind the peer's LID, found "4xFAST"`},
		{"bad option", "Switch 4 \"a\"\n[1] \"b\"[1] w=x\n", `net:2:12: expected an option w=, s= or e= with a number, found "w=x"`},
		{"bad mask", "Switch 4 \"a\"\n[1] \"b\"[1] w=32\n", `net:2:12: expected a mask of width up to 31, found 32`},
		{"LID twice", "Switch 4 \"a\" # \"a\" base port 0 lid 3 lmc 0\nSwitch 4 \"b\" # \"b\" base port 0 lid 3 lmc 0\n", `net:2:1: expected LIDs that no other port has, found a port 0 and b port 0 both have LID 3`},
		{"multicast LID", "Switch 4 \"a\" # \"a\" base port 0 lid 49152 lmc 0\n", `net:1:36: expected a unicast LID`},
		{"LMC", "Switch 4 \"a\" # \"a\" enhanced port 0 lid 3 lmc 1\n", `LID 3 is no multiple of 2`},
		{"port GUID twice", "Ca 1 \"a\"\n[1](7) \"s\"[1]\n\nCa 1 \"b\"\n[1](7) \"s\"[2]\n\nSwitch 2 \"s\"\n", `net:5:8: expected a port GUID that no other port has, found 7, which a port 1 has`},
		{"port GUIDs differ", "Ca 1 \"a\"\n[1](7) \"s\"[1]\n\nSwitch 2 \"s\"\n[1] \"a\"[1](8)\n", `net:5:5: expected GUID 7, as line 2 has for a port 1, found 8`},
		{"attribute", "nodeguid=0x10\n", `found the attribute "nodeguid"`},
		{"number", "switchguid=ten\n", `net:1:12: expected a number after switchguid=, found "ten"`},
		{"two kinds", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 0 100G\n\nSwitch 4 \"b\"\n[1] \"a\"[1] # \"a\" lid 0 4xEDR\n", `net:2:5: expected a link of one kind at both ends: that of line 5 is 4xEDR, found 100G`},
		{"two lengths", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 0 100G 3m\n\nSwitch 4 \"b\"\n[1] \"a\"[1] # \"a\" lid 0 100G 4m\n", `net:2:5: expected a cable of 4m, as line 5 has it, found 3m`},
		{"length", "Switch 4 \"a\"\n[1] \"b\"[1]\t# \"b\" lid 0\t100G\t 1e9m\n", `net:2:30: expected a length of the cable from 0.01m to 100000m, found "1e9m"`},
		{"Ethernet with a width", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 0\t 4x100G\n", `net:2:25: expected a link like 4xEDR or 100G behind the peer's LID, found "4x100G"`},
		{"include", "include \"other\"\n", `net:1:1: expected a node`},
		{"description", "Switch 4 \"a\" # \"" + strings.Repeat("x", 65) + "\"\n", `net:1:16: expected a description of 64 bytes at most, found 65 bytes`},
	} {
		_, _, err := Parse("net", c.text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %s", c.name, err, c.want)
		}
	}
}

func TestCheckRefusesContradictions(t *testing.T) {
	for name, spoil := range map[string]func(*Fabric){
		"disagree on their link":            func(f *Fabric) { f.Nodes[0].Ports[1].Peer = End{2, 1} },
		"a port that does not exist":        func(f *Fabric) { f.Nodes[0].Ports[1].Peer = End{9, 1} },
		"both have LID 1":                   func(f *Fabric) { f.Nodes[0].Ports[0].LID, f.Nodes[1].Ports[1].LID = 1, 1 },
		"two nodes have the ID":             func(f *Fabric) { f.Nodes[1].ID = f.Nodes[0].ID },
		"have the GUID":                     func(f *Fabric) { f.Nodes[1].GUID = f.Nodes[0].GUID },
		"expected 1 to 254":                 func(f *Fabric) { f.Nodes[0].Ports = nil },
		"expected 64 at most":               func(f *Fabric) { f.Nodes[1].Description = strings.Repeat("x", 65) },
		"expected an LMC of 0 to 7":         func(f *Fabric) { f.Nodes[1].Ports[1].LID, f.Nodes[1].Ports[1].LMC = 256, 8 },
		"above 49151, the last unicast LID": func(f *Fabric) { f.Nodes[1].Ports[1].LID, f.Nodes[1].Ports[1].LMC = 0xBFFF, 1 },
		"a management port has no link":     func(f *Fabric) { f.Nodes[0].Ports[0].Peer = End{1, 1} },
	} {
		f, err := Generate("star:3")
		if err != nil {
			t.Fatal(err)
		}
		spoil(f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, expected %s", err, name)
		}
	}
}

func TestAssignLIDsKeepsAndAligns(t *testing.T) {
	f, err := Generate("star:4")
	if err != nil {
		t.Fatal(err)
	}
	f.Nodes[2].Ports[1].LID, f.Nodes[2].Ports[1].LMC = 4, 2
	if err := f.AssignLIDs(2); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(f.Nodes[0].Ports[0].LID, f.Nodes[1].Ports[1].LID, f.Nodes[2].Ports[1].LID, f.Nodes[3].Ports[1].LID, f.Nodes[4].Ports[1].LID)
	if got != "1 8 4 12 16" {
		t.Fatal(got)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestFindRefusesAmbiguousNames(t *testing.T) {
	f, err := Generate("star:2")
	if err != nil {
		t.Fatal(err)
	}
	f.Nodes[2].Description = f.Nodes[1].Description
	if _, err := f.Find("node-0"); err == nil || !strings.Contains(err.Error(), "both called") {
		t.Fatal(err)
	}
	if _, err := f.Find("node-9"); err == nil {
		t.Fatal("found a node that does not exist")
	}
	if i, err := f.Find(f.Nodes[2].ID); err != nil || i != 2 {
		t.Fatal(i, err)
	}
}

func TestLinkRate(t *testing.T) {
	for _, c := range []struct {
		w    Width
		s    Speed
		want uint64
	}{{4, SDR, 8e9}, {4, QDR, 32e9}, {4, EDR, 100e9}, {1, NDR, 100e9}, {12, HDR, 600e9}, {1, Ethernet10M, 1e7}, {1, Ethernet100M, 1e8}, {1, Ethernet1G, 1e9}, {1, Ethernet40G, 40e9}, {1, Ethernet800G, 800e9}} {
		if got := LinkRate(c.w, c.s); got != c.want {
			t.Errorf("%v%v: %d, expected %d", c.w, c.s, got, c.want)
		}
	}
}

// FuzzParse checks that every fabric that Parse accepts is consistent and is
// the same after it was written and parsed again.
func FuzzParse(f *testing.F) {
	for _, text := range generated {
		if g, err := Generate(text); err == nil && len(g.Nodes) < 20 {
			f.Add(string(g.Append(nil)))
		}
	}
	if gaps, err := os.ReadFile("testdata/gaps.txt"); err == nil {
		f.Add(string(gaps))
	}
	f.Add("Switch 8 \"s\"\n[1] \"h\"[1] w=3 s=4 e=1\n\nHca 2 \"h\"\n")
	f.Add("Switch 8 \"s\"\n[1] \"h\"[1] # \"h\" lid 0 100G 2.5m\n\nCa 2 \"h\"\n")
	f.Add("switchguid+0x10\nwidth=3\nspeed=7\nSwitch 8 \"s\" # \"x\" base port 0 lid 3 lmc 0\n[1][ext 3] \"h\"[1][ext 4](7) # \"h\" lid 4 4xEDR\n\nRt 2 \"h\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, _, err := Parse("net", text)
		if err != nil {
			return
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		written := string(a.Append(nil))
		b, _, err := Parse("net", written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if again := string(b.Append(nil)); len(again) != len(written) {
			t.Fatalf("%s\n%s", written, again)
		}
	})
}

// FuzzGenerate checks that every text is refused or gives a consistent fabric.
func FuzzGenerate(f *testing.F) {
	for _, text := range generated {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Generate(text)
		if err != nil {
			return
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPartsOfAFabricShareNoGUID(t *testing.T) {
	seen := make(map[uint64]string)
	for _, text := range []string{"star:3", "star:3,part=1,spare=2", "star:3,part=255", "fat-tree:k=4,part=2,spare=1"} {
		f, err := Generate(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Nodes {
			for _, guid := range []uint64{f.Nodes[i].GUID, f.Nodes[i].Ports[1].GUID} {
				if other, ok := seen[guid]; ok && other != f.Nodes[i].Description {
					t.Errorf("%s: %s and %s have GUID %x", text, other, f.Nodes[i].Description, guid)
				}
				seen[guid] = f.Nodes[i].Description
			}
		}
	}
	f, _ := Generate("star:3,part=1,spare=2")
	if n := &f.Nodes[0]; n.Description != "p1-switch-0" || n.NumPorts() != 5 || n.Ports[3].Peer.Port == 0 || n.Ports[4].Connected() || n.Ports[5].Connected() {
		t.Errorf("%+v", n)
	}
	for _, text := range []string{"star:3,part=256", "star:3,spare=252", "star:3,spare=x"} {
		if _, err := Generate(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestLinksOfEthernetHaveSpeedsAndLengths(t *testing.T) {
	f, err := Generate("leaf-spine:leaves=2,hosts=4,speed=25G,switch-speed=100G,length=2.5m,switch-length=30m")
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		for p := 1; p <= f.Nodes[i].NumPorts(); p++ {
			port := &f.Nodes[i].Ports[p]
			want := Port{Speed: Ethernet100G, Length: 30 * Metre}
			if f.Nodes[i].Kind != Switch || f.Nodes[port.Peer.Node].Kind != Switch {
				want = Port{Speed: Ethernet25G, Length: 250}
			}
			if port.Speed != want.Speed || port.Length != want.Length || port.Width != 1 {
				t.Errorf("%s: %+v", f.EndName(End{i, p}), port)
			}
		}
	}
	if _, ok := f.Ethernet(); !ok {
		t.Error("the fabric has no link of Ethernet")
	}
	if f, _ = Generate("star:3"); f != nil {
		if at, ok := f.Ethernet(); ok {
			t.Errorf("%s is a port of Ethernet", f.EndName(at))
		}
	}
}

// A line of one end is enough for a link and its length.
func TestParseTakesAnEthernetLinkFromOneEnd(t *testing.T) {
	f, warnings, err := Parse("net", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 0 400G 30m\n\nSwitch 4 \"b\"\n[1] \"a\"[1]\n")
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	if p := f.Nodes[1].Ports[1]; p.Speed != Ethernet400G || p.Width != 1 || p.Length != 30*Metre {
		t.Errorf("%+v", p)
	}
	f, warnings, err = Parse("net", "Switch 4 \"a\"\n[1] \"b\"[1] # \"b\" lid 0 400G\n\nSwitch 4 \"b\"\n[1] \"a\"[1] # \"a\" lid 0 40G\n")
	if err != nil || len(warnings) != 1 || warnings[0] != "net:2:5: this end of the link is 400G, that of line 5 is 40G: it becomes 40G" {
		t.Fatal(err, warnings)
	}
	if p := f.Nodes[0].Ports[1]; p.Speed != Ethernet40G || p.Width != 1 {
		t.Errorf("%+v", p)
	}
}

// Failures are the same for a seed, and leave all nodes within reach of each other.
func TestFailedLinksLeaveTheFabricWhole(t *testing.T) {
	const text = "torus:4x4,speed=10G,failed=17" // 15 links join 16 switches
	first := ""
	for seed := range 20 {
		f, err := Generate(fmt.Sprintf("%s,seed=%d", text, seed))
		if err != nil {
			t.Fatal(err)
		}
		written := string(f.Append(nil))
		if again, _ := Generate(fmt.Sprintf("%s,seed=%d", text, seed)); string(again.Append(nil)) != written {
			t.Errorf("seed %d: two fabrics", seed)
		}
		if seed == 0 {
			first = written
		} else if written == first {
			t.Errorf("seeds 0 and %d fail the same links", seed)
		}
		seen := map[int]bool{0: true}
		for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
			for _, p := range f.Nodes[queue[0]].Ports {
				if p.Connected() && !seen[p.Peer.Node] {
					seen[p.Peer.Node] = true
					queue = append(queue, p.Peer.Node)
				}
			}
		}
		if len(seen) != len(f.Nodes) {
			t.Errorf("seed %d: %d of %d nodes are joined", seed, len(seen), len(f.Nodes))
		}
	}
}
