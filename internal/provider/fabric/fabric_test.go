package fabric

import (
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

func TestConfigOfAPort(t *testing.T) {
	i := &attach.Info{
		NodeInfo: smp.NodeInfo{PortGUID: 0x11, PartitionCap: 4},
		PortInfo: smp.PortInfo{MTUCap: mad.MTUFrom(4096)},
	}
	c := Config(i)
	if c.LID != 0 || c.MTU != 4096 || !slices.Equal(c.PKeys, []uint16{0, 0, 0, 0}) ||
		!slices.Equal(c.GIDs, []netip.Addr{netip.MustParseAddr("fe80::11")}) {
		t.Errorf("a port that no manager has seen: %+v", c)
	}
	i.PortInfo = smp.PortInfo{LID: 8, LMC: 2, NeighborMTU: mad.MTUFrom(1024), MTUCap: mad.MTUFrom(4096), GIDPrefix: 0xfec0 << 48}
	i.PKeys, i.GUIDs = []uint16{0xffff, 0x8001}, []uint64{0x11, 0, 0x33}
	c = Config(i)
	if c.LID != 8 || c.LMC != 2 || c.MTU != 1024 || !slices.Equal(c.PKeys, []uint16{0xffff, 0x8001, 0, 0}) ||
		!slices.Equal(c.GIDs, []netip.Addr{netip.MustParseAddr("fec0::11"), {}, netip.MustParseAddr("fec0::33")}) {
		t.Errorf("a port as a manager set it: %+v", c)
	}
}
