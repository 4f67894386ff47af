package partitions

import (
	"maps"
	"strings"
	"testing"

	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
)

func partitionFabric(t testing.TB) (f *topology.Fabric, guid func(name string) uint64) {
	f, err := topology.Generate("star:3")
	if err != nil {
		t.Fatal(err)
	}
	return f, func(name string) uint64 {
		n, err := f.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := f.Nodes[n].EndPorts()
		return f.Nodes[n].Ports[first].GUID
	}
}

func TestParse(t *testing.T) {
	f, guid := partitionFabric(t)
	const self = 0xabc
	got, err := Parse("p", `# as in opensm's manual
Default=0x7fff, ipoib : ALL=limited, SELF=full ;
storage = 0x80 , defmember=full : node-0, 0x123 ;	storage=0x80 : node-1,
	# a definition may have several lines
	node-2=full ;
switches=0x8001: ALL_SWITCHES=full, ALL_CAS;`, f, self)
	if err != nil {
		t.Fatal(err)
	}
	want := []sm.Partition{
		{Key: 0x7fff, IPoIB: true, All: sm.LimitedMember, Members: map[uint64]sm.Membership{self: sm.FullMember}},
		{Key: 0x80, Members: map[uint64]sm.Membership{guid("node-0"): sm.FullMember, 0x123: sm.FullMember, guid("node-1"): sm.LimitedMember, guid("node-2"): sm.FullMember}},
		{Key: 1, Members: map[uint64]sm.Membership{guid("switch-0"): sm.FullMember, guid("node-0"): sm.LimitedMember, guid("node-1"): sm.LimitedMember, guid("node-2"): sm.LimitedMember}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d partitions, expected %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Key != w.Key || g.IPoIB != w.IPoIB || g.All != w.All || !maps.Equal(g.Members, w.Members) {
			t.Errorf("partition %d: %+v, expected %+v", i, g, w)
		}
	}
}

func TestParseRefusesByLine(t *testing.T) {
	f, _ := partitionFabric(t)
	for text, want := range map[string]string{
		"":                          "p: expected a partition, found none",
		"# nothing\n":               "p: expected a partition, found none",
		"a=1:ALL":                   `p:1: "a=1:ALL": expected a semicolon at the end, found none`,
		"a=1:ALL;\n\nb=2 ALL;":      `p:3: "b=2 ALL": expected NAME=PKEY : MEMBER`,
		"a:ALL;":                    `p:1: "a": expected NAME=PKEY`,
		"=1:ALL;":                   `p:1: "=1": expected NAME=PKEY`,
		"a=0x8000:ALL;":             `p:1: a: expected a P_Key of 0x1 to 0x7fff, found "0x8000"`,
		"a=0x10000:ALL;":            `p:1: a: expected a P_Key of 0x1 to 0x7fff, found "0x10000"`,
		"a=1:ALL;\na=2:ALL;":        "p:2: a: expected the P_Key 0x1 of the definition before, found 0x2",
		"a=1,rate=3:ALL;":           `p:1: a: expected ipoib, defmember=full or defmember=limited, found "rate=3"`,
		"a=1,defmember=both:ALL;":   `p:1: a: expected full or limited, found "both"`,
		"a=1:ALL=half;":             `p:1: a: ALL: expected full or limited, found "half"`,
		"a=1:;":                     "p:1: a: expected a member, found none",
		"\n\na=1:\n ALL,\n node-9;": `p:3: a: "node-9": expected ALL, ALL_CAS, ALL_SWITCHES, SELF, the GUID of a port or a node`,
	} {
		_, err := Parse("p", text, f, 1)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	fabric, _ := partitionFabric(f)
	f.Add("Default=0x7fff,ipoib:ALL=full;")
	f.Add("a=1,defmember=full:node-0,0x12=limited;#\nb=2:SELF;")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse("p", text, fabric, 1)
		if err == nil && len(all) == 0 {
			t.Error("no partition and no error")
		}
		for _, p := range all {
			if p.Key == 0 || p.Key > 0x7fff {
				t.Errorf("P_Key %#x", p.Key)
			}
		}
	})
}
