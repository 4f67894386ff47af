package dcb

import (
	"encoding/binary"

	"softrdma/internal/wire/ethernet"
)

// Mark sets ECN to CE (RFC 3168 5), in Data as well.
func (f *Frame) Mark() {
	f.ECN = CE
	f.traffic(func(at []byte, v4 bool) {
		if v4 {
			before := binary.BigEndian.Uint16(at)
			at[1] |= CE
			adjust(at[10:], before, binary.BigEndian.Uint16(at))
			return
		}
		at[1] |= CE << 4
	})
}

// Forward gives a routed frame the addresses of its next link and lowers the hop limit, in Data as
// well.
func (f *Frame) Forward(src, dst Address) {
	f.Src, f.Dst = src, dst
	f.Hops--
	if len(f.Data) == 0 {
		return
	}
	s, d := src.MAC(), dst.MAC()
	copy(f.Data, d[:])
	copy(f.Data[6:], s[:])
	f.traffic(func(at []byte, v4 bool) {
		if v4 {
			before := binary.BigEndian.Uint16(at[8:])
			at[8]--
			adjust(at[10:], before, binary.BigEndian.Uint16(at[8:]))
			return
		}
		at[7]--
	})
}

// Remark changes the DSCP, in Data as well.
func (f *Frame) Remark(dscp uint8) {
	f.DSCP = dscp
	f.traffic(func(at []byte, v4 bool) {
		if v4 {
			before := binary.BigEndian.Uint16(at)
			at[1] = dscp<<2 | at[1]&CE
			adjust(at[10:], before, binary.BigEndian.Uint16(at))
			return
		}
		at[0], at[1] = at[0]&0xf0|dscp>>2, at[1]&0x3f|dscp<<6
	})
}

// traffic calls f with the header of IP or the GRH, if Data has one.
func (f *Frame) traffic(change func(at []byte, v4 bool)) {
	var h ethernet.Header
	n := h.Parse(f.Data)
	if n == 0 {
		return
	}
	b := f.Data[n:]
	switch {
	case h.Type == ethernet.TypeIPv4 && len(b) >= ipv4Len:
		change(b, true)
	case (h.Type == ethernet.TypeIPv6 || h.Type == ethernet.TypeRoCE) && len(b) >= ipv6Len:
		change(b, false)
	}
}

// adjust updates a checksum for a word of the header that changes (RFC 1624 3).
func adjust(sum []byte, before, after uint16) {
	s := uint32(^binary.BigEndian.Uint16(sum)) + uint32(^before) + uint32(after)
	s = s&0xffff + s>>16
	s = s&0xffff + s>>16
	binary.BigEndian.PutUint16(sum, ^uint16(s))
}

// Tag gives the frame a tag or takes it away, in Data as well. A tag that stays gets the VLAN.
func (f *Frame) Tag(tagged bool, vlan uint16, priority uint8) {
	switch {
	case tagged && !f.Tagged:
		f.Len += ethernet.TagLen
		if len(f.Data) > 0 {
			f.Data = append(f.Data, 0, 0, 0, 0)
			copy(f.Data[16:], f.Data[12:])
			binary.BigEndian.PutUint16(f.Data[12:], ethernet.TypeVLAN)
		}
	case !tagged && f.Tagged:
		f.Len = max(f.Len-ethernet.TagLen, MinFrame)
		if len(f.Data) > 0 {
			f.Data = append(f.Data[:12], f.Data[16:]...)
		}
	}
	f.Tagged, f.VLAN, f.PCP = tagged, vlan, priority
	if tagged && len(f.Data) > 0 {
		binary.BigEndian.PutUint16(f.Data[14:], uint16(ethernet.NewTag(vlan, priority)))
	}
}
