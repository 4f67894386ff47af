package sa

import "softrdma/internal/wire/mad"

// widths are the bits of each component of a record, in the order of the bits of
// the component mask. Components follow each other without gaps; reserved ones
// have bits of the mask, too (IBTA 15.2.5, column component mask).
var widths = map[mad.AttributeID][]int{
	AttrNodeRecord: {16, 16, 8, 8, 8, 8, 64, 64, 64, 16, 16, 32, 8, 24, 512},
	AttrPortInfoRecord: {16, 8, 8, 64, 64, 16, 16, 32, 16, 16, 8, 8, 8, 8, 4, 4, 4, 4, 2, 3, 3, 4, 4, 4, 4, 4, 4, 8, 8, 8, 4, 4, 3, 5, 4,
		1, 1, 1, 1, 16, 16, 16, 8, 1, 2, 5, 3, 5, 4, 4, 16, 8, 24, 16, 4, 4, 3, 5},
	AttrSLtoVLRecord:              {16, 8, 8, 32, 64},
	AttrSwitchInfoRecord:          {16, 16, 16, 16, 16, 16, 8, 8, 8, 5, 1, 2, 16, 16, 1, 1, 1, 1, 1, 11, 16},
	AttrLinearForwardingRecord:    {16, 16, 32, 512},
	AttrMulticastForwardingRecord: {16, 4, 3, 9, 32, 512},
	AttrSMInfoRecord:              {16, 16, 64, 64, 32, 4, 4},
	AttrLinkRecord:                {16, 8, 8, 16},
	AttrGUIDInfoRecord:            {16, 8, 8, 32, 64, 64, 64, 64, 64, 64, 64, 64},
	AttrServiceRecord: {64, 128, 16, 16, 32, 128, 512, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
		16, 16, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32, 64, 64},
	AttrPKeyTableRecord:     {16, 16, 8, 24, 512},
	AttrPathRecord:          {8, 56, 128, 128, 16, 16, 1, 3, 20, 8, 8, 1, 7, 16, 12, 4, 2, 6, 2, 6, 2, 6, 8},
	AttrVLArbitrationRecord: {16, 8, 8, 32, 512},
	AttrMCMemberRecord:      {128, 128, 32, 16, 2, 6, 8, 16, 2, 6, 2, 6, 4, 20, 8, 4, 4, 1},
	AttrInformInfoRecord:    {128, 16, 48, 128, 16, 16, 16, 8, 8, 16, 16, 24, 3, 5, 8, 24},
}

// Components of a PathRecord.
const (
	PathServiceID        = 3 << 0
	PathDGID             = 1 << 2
	PathSGID             = 1 << 3
	PathDLID             = 1 << 4
	PathSLID             = 1 << 5
	PathFlowLabel        = 1 << 8
	PathHopLimit         = 1 << 9
	PathTrafficClass     = 1 << 10
	PathReversible       = 1 << 11
	PathNumPaths         = 1 << 12
	PathPKey             = 1 << 13
	PathQoSClass         = 1 << 14
	PathSL               = 1 << 15
	PathMTUSelector      = 1 << 16
	PathMTU              = 1 << 17
	PathRateSelector     = 1 << 18
	PathRate             = 1 << 19
	PathLifeTimeSelector = 1 << 20
	PathLifeTime         = 1 << 21
)

// Components of a MCMemberRecord.
const (
	MemberMGID             = 1 << 0
	MemberPortGID          = 1 << 1
	MemberQKey             = 1 << 2
	MemberMLID             = 1 << 3
	MemberMTUSelector      = 1 << 4
	MemberMTU              = 1 << 5
	MemberTrafficClass     = 1 << 6
	MemberPKey             = 1 << 7
	MemberRateSelector     = 1 << 8
	MemberRate             = 1 << 9
	MemberLifeTimeSelector = 1 << 10
	MemberLifeTime         = 1 << 11
	MemberSL               = 1 << 12
	MemberFlowLabel        = 1 << 13
	MemberHopLimit         = 1 << 14
	MemberScope            = 1 << 15
	MemberJoinState        = 1 << 16
	MemberProxyJoin        = 1 << 17
)

// Components returns the bits of the component mask that a record has, 0 for an
// unknown attribute.
func Components(a mad.AttributeID) uint64 {
	return 1<<len(widths[a]) - 1
}

// Match reports whether the components of a mask are the same in two records.
// Bits that the record does not have match.
func Match(a mad.AttributeID, mask uint64, query, record *[DataLen]byte) bool {
	at := 0
	for _, width := range widths[a] {
		if mask&1 != 0 && !same(query, record, at, width) {
			return false
		}
		mask >>= 1
		at += width
	}
	return true
}

// same reports whether bits are the same, from the highest of a byte on.
func same(x, y *[DataLen]byte, at, width int) bool {
	for width > 0 {
		n := min(8-at%8, width)
		mask := byte(0xff) << (8 - n) >> (at % 8)
		if (x[at/8]^y[at/8])&mask != 0 {
			return false
		}
		at, width = at+n, width-n
	}
	return true
}
