//go:build linux

package device

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
	"softrdma/internal/wire/uapi"
)

// linkInfiniBand and linkEthernet are the link layers of ports
// (IBV_LINK_LAYER_INFINIBAND, _ETHERNET).
const (
	linkInfiniBand = 1
	linkEthernet   = 2
)

// fabricPort describes the port of a fabric as its subnet manager has configured it.
func fabricPort(i *attach.Info) uapi.QueryPortResp {
	p := &i.PortInfo
	state, physical := linkState(i)
	return uapi.QueryPortResp{
		PortCapFlags: uint32(p.CapabilityMask), MaxMsgSz: 1 << 31,
		BadPKeyCntr: uint32(p.PKeyViolations), QKeyViolCntr: uint32(p.QKeyViolations),
		GIDTblLen: uint32(len(fabricGIDs(i))), PKeyTblLen: uint16(len(i.PKeys)),
		LID: p.LID, LMC: p.LMC, SMLID: p.MasterSMLID, SMSL: p.MasterSMSL, State: uint8(state), PhysState: uint8(physical),
		MaxMTU: uint8(p.MTUCap), ActiveMTU: uint8(max(p.NeighborMTU, mad.MTUFrom(256))), MaxVLNum: uint8(p.VLCap),
		SubnetTimeout: p.SubnetTimeout, InitTypeReply: p.InitTypeReply,
		ActiveWidth: uint8(p.WidthActive), ActiveSpeed: speedCode(p), LinkLayer: linkInfiniBand,
	}
}

// linkState returns the states of a port. A port whose fabric is gone has lost its link.
func linkState(i *attach.Info) (smp.PortState, smp.PhysicalState) {
	if !i.Up {
		return smp.PortDown, smp.PhysicalPolling
	}
	return i.PortInfo.State, i.PortInfo.Physical
}

// speedCode returns the active speed as verbs number it (enum ib_port_speed): from FDR on
// a bit above those of the first field of speeds.
func speedCode(p *smp.PortInfo) uint8 {
	const extendedShift = 4
	if e := p.ExtSpeedActive; e != 0 {
		return uint8(e) << extendedShift
	}
	return uint8(p.SpeedActive)
}

// fabricGIDs returns the GID table of a port: the prefix of its subnet with each of its
// GUIDs (IBTA 4.1.1).
func fabricGIDs(i *attach.Info) [][16]byte {
	gids := make([][16]byte, max(len(i.GUIDs), 1))
	for n, guid := range i.GUIDs {
		if guid != 0 {
			binary.BigEndian.PutUint64(gids[n][:], i.PortInfo.GIDPrefix)
			binary.BigEndian.PutUint64(gids[n][8:], guid)
		}
	}
	return gids
}

// addFabricPort adds the files of a fabric's port, as Linux's core writes them.
func addFabricPort(i *attach.Info, dir string, files map[string]string) {
	p := &i.PortInfo
	state, physical := linkState(i)
	files[dir+"link_layer"] = "InfiniBand"
	files[dir+"state"] = named(uint8(state), "NOP", "DOWN", "INIT", "ARMED", "ACTIVE")
	files[dir+"phys_state"] = named(uint8(physical),
		"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test")
	files[dir+"rate"] = uapi.LinkRate{Width: uint8(p.WidthActive), Speed: speedCode(p)}.String()
	files[dir+"lid"], files[dir+"lid_mask_count"] = fmt.Sprintf("%#x", p.LID), fmt.Sprint(p.LMC)
	files[dir+"sm_lid"], files[dir+"sm_sl"] = fmt.Sprintf("%#x", p.MasterSMLID), fmt.Sprint(p.MasterSMSL)
	files[dir+"cap_mask"] = fmt.Sprintf("0x%08x", uint32(p.CapabilityMask))
	for n, k := range i.PKeys {
		files[fmt.Sprint(dir, "pkeys/", n)] = fmt.Sprintf("0x%04x", k)
	}
	for n, gid := range fabricGIDs(i) {
		files[fmt.Sprint(dir, "gids/", n)] = gidText(gid)
		files[fmt.Sprint(dir, "gid_attrs/types/", n)] = "IB/RoCE v1" // the type that Linux gives InfiniBand's GIDs
	}
}

// fabricPath returns the path to a LID, with a GRH if the address is global (IBTA 11.2.2).
func fabricPath(h *uapi.AHAttr, gids [][16]byte) (qp.Path, error) {
	lid := ib.LID(h.DLID)
	switch index := h.GRH.SGIDIndex; {
	case h.IsGlobal != 0 && (int(index) >= len(gids) || gids[index] == [16]byte{}):
		return qp.Path{}, noGID(len(gids), index)
	case h.PortNum != 1:
		return qp.Path{}, fmt.Errorf("port: expected 1, found %d: %w", h.PortNum, syscall.EINVAL)
	case lid == 0 || lid == ib.PermissiveLID:
		return qp.Path{}, fmt.Errorf("DLID %#x: expected that of a port or of a group: %w", h.DLID, syscall.EINVAL)
	case lid.Multicast() && h.IsGlobal == 0:
		return qp.Path{}, fmt.Errorf("DLID %#x of a group: expected a GID as well: %w", h.DLID, syscall.EINVAL)
	}
	return h.FabricPath(), nil
}

// AH converts a path back to an address.
func (d *Device) AH(p *qp.Path) uapi.AHAttr {
	if d.Fabric == nil {
		return uapi.AHOf(p)
	}
	return uapi.FabricAHOf(p)
}

// named prints a value and its name.
func named(value uint8, names ...string) string {
	name := "<unknown>"
	if int(value) < len(names) {
		name = names[value]
	}
	return fmt.Sprintf("%d: %s", value, name)
}

// PutPath fills in what only a path of a fabric has: GID, LIDs, service level and P_Key. A
// path that is not known yet has no LIDs.
func (d *Device) PutPath(r *uapi.UserPathRec, p *qp.Path, pkey uint16) {
	i := d.Fabric.Info()
	r.SGID = fabricGIDs(i)[0]
	if pkey != 0 {
		binary.BigEndian.PutUint16(r.PKey[:], pkey)
	}
	if p.Dst.IsValid() {
		binary.BigEndian.PutUint16(r.DLID[:], p.LID())
		binary.BigEndian.PutUint16(r.SLID[:], i.PortInfo.LID|uint16(p.PathBits))
		r.SL = p.ServiceLevel
	}
}
