//go:build linux

package device

import (
	"errors"
	"maps"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
	"softrdma/internal/wire/uapi"
)

// active is a port that a manager has configured.
func active() *attach.Info {
	return &attach.Info{
		Up: true, GUIDs: []uint64{0x0002c90300000001, 0}, PKeys: []uint16{0xffff, 0x8001},
		PortInfo: smp.PortInfo{
			GIDPrefix: 0xfe80000000000000, LID: 0x1c, LMC: 2, MasterSMLID: 3, MasterSMSL: 5, CapabilityMask: smp.CapSM | smp.CapTrap,
			State: smp.PortActive, Physical: smp.PhysicalLinkUp, WidthActive: smp.Width4x, SpeedActive: smp.SpeedQDR, ExtSpeedActive: smp.ExtSpeedEDR,
			MTUCap: mad.MTUFrom(4096), NeighborMTU: mad.MTUFrom(2048), VLCap: smp.VL0to7, SubnetTimeout: 18, PKeyViolations: 7,
		},
	}
}

func TestFabricPort(t *testing.T) {
	i := active()
	want := uapi.QueryPortResp{
		PortCapFlags: uint32(smp.CapSM | smp.CapTrap), MaxMsgSz: 1 << 31, BadPKeyCntr: 7, GIDTblLen: 2, PKeyTblLen: 2,
		LID: 0x1c, LMC: 2, SMLID: 3, SMSL: 5, State: 4, PhysState: 5, MaxMTU: 5, ActiveMTU: 4, MaxVLNum: 4, SubnetTimeout: 18,
		ActiveWidth: 2, ActiveSpeed: 32, LinkLayer: 1,
	}
	if got := fabricPort(i); got != want {
		t.Errorf("found %+v, expected %+v", got, want)
	}
	i.Up = false
	if got := fabricPort(i); got.State != 1 || got.PhysState != 2 {
		t.Errorf("port of a fabric that is gone: state %d, %d", got.State, got.PhysState)
	}
}

func TestFabricPortFiles(t *testing.T) {
	files := make(map[string]string)
	addFabricPort(active(), "", files)
	want := map[string]string{
		"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)",
		"lid": "0x1c", "lid_mask_count": "2", "sm_lid": "0x3", "sm_sl": "5", "cap_mask": "0x0000000a",
		"pkeys/0": "0xffff", "pkeys/1": "0x8001",
		"gids/0": "fe80:0000:0000:0000:0002:c903:0000:0001", "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
		"gid_attrs/types/0": "IB/RoCE v1", "gid_attrs/types/1": "IB/RoCE v1",
	}
	if !maps.Equal(files, want) {
		t.Errorf("found %v, expected %v", files, want)
	}
}

func TestRateText(t *testing.T) {
	for want, p := range map[string]smp.PortInfo{
		"2.5 Gb/sec (1X SDR)":   {WidthActive: smp.Width1x, SpeedActive: smp.SpeedSDR},
		"10 Gb/sec (4X SDR)":    {WidthActive: smp.Width4x, SpeedActive: smp.SpeedSDR},
		"56 Gb/sec (4X FDR)":    {WidthActive: smp.Width4x, SpeedActive: smp.SpeedQDR, ExtSpeedActive: smp.ExtSpeedFDR},
		"1200 Gb/sec (12X NDR)": {WidthActive: smp.Width12x, SpeedActive: smp.SpeedQDR, ExtSpeedActive: smp.ExtSpeedNDR},
	} {
		if got := (uapi.LinkRate{Width: uint8(p.WidthActive), Speed: speedCode(&p)}).String(); got != want {
			t.Errorf("found %q, expected %q", got, want)
		}
	}
}

func TestFabricPath(t *testing.T) {
	d := &Device{Fabric: new(attach.Port)}
	gids := [][16]byte{{15: 1}, {}, {15: 3}}
	peer := netip.MustParseAddr("fe80::2:c903:0:2")
	for name, c := range map[string]struct {
		h    uapi.AHAttr
		want qp.Path
	}{
		"by LID": {
			uapi.AHAttr{DLID: 9, SL: 3, SrcPathBits: 1, PortNum: 1},
			qp.Path{Dst: qp.LIDEndpoint(9), ServiceLevel: 3, PathBits: 1},
		},
		"by LID and GID": {
			uapi.AHAttr{DLID: 9, SL: 3, IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: peer.As16(), FlowLabel: 7, HopLimit: 2, TrafficClass: 8}},
			qp.Path{Dst: netip.AddrPortFrom(peer, 9), ServiceLevel: 3, FlowLabel: 7, HopLimit: 2, TrafficClass: 8},
		},
		"from the third GID": {
			uapi.AHAttr{DLID: 9, IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: peer.As16(), SGIDIndex: 2}},
			qp.Path{Dst: netip.AddrPortFrom(peer, 9), SGIDIndex: 2},
		},
	} {
		got, err := fabricPath(&c.h, gids)
		if got != c.want || err != nil {
			t.Errorf("%s: found %+v, error %v, expected %+v", name, got, err, c.want)
		}
		if back := d.AH(&got); back != c.h {
			t.Errorf("%s: back to %+v", name, back)
		}
	}
	for name, h := range map[string]uapi.AHAttr{
		"port 2":              {DLID: 9, PortNum: 2},
		"no LID":              {PortNum: 1},
		"the permissive LID":  {DLID: 0xffff, PortNum: 1},
		"a group without GID": {DLID: 0xc001, PortNum: 1},
		"an empty GID":        {DLID: 9, IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{SGIDIndex: 1}},
		"no GID":              {DLID: 9, IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{SGIDIndex: 3}},
	} {
		if _, err := fabricPath(&h, gids); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
