package agent

import (
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/cc"
)

// A congestion is what a manager has set of congestion control (IBTA Annex A10). The agent
// keeps the settings and hands them out; the nodes of a fabric neither mark packets nor slow
// down, and their logs are empty.
type congestion struct {
	*settings
	key      cc.KeyInfo
	leaseEnd time.Duration
	blocks   map[congestionBlock]*[cc.DataLen]byte // nil until a manager sets one
}

// A congestionBlock is a block of an attribute of settings.
type congestionBlock struct {
	attribute mad.AttributeID
	block     uint32
}

// tableBlocks is the number of blocks of an adapter's CongestionControlTable: 128 entries.
const tableBlocks = 2

// control answers a packet of congestion control. One with a wrong key is discarded.
func (g *congestion) control(now time.Duration, in *Arrival, h *mad.Header, out *Departure) bool {
	if !g.authorize(now, h, cc.Key(in.MAD)) {
		out.discard(reason.SMPManagementKey, 0, uint64(h.Attribute))
		return false
	}
	switch {
	case h.ClassVersion != cc.ClassVersion:
		h.Status = mad.StatusVersion
	case h.Method == mad.MethodGet:
		h.Status = g.getCongestion(now, cc.Key(in.MAD), h, &out.MAD)
	case h.Method == mad.MethodSet:
		h.Status = g.setCongestion(now, h, &out.MAD)
	default:
		h.Status = mad.StatusMethod
	}
	return true
}

// authorize reports whether a key allows a request, and keeps the lease of the node's key.
func (g *congestion) authorize(now time.Duration, h *mad.Header, key uint64) bool {
	if now >= g.leaseEnd {
		g.leaseEnd, g.key.Key, g.key.Protect = Never, 0, false
	}
	if g.key.Key == 0 || key == g.key.Key {
		g.leaseEnd = Never
		return true
	}
	if h.Method == mad.MethodGet && !g.key.Protect {
		return true
	}
	increment(&g.key.Violations)
	if g.key.LeasePeriod != 0 && g.leaseEnd == Never {
		g.leaseEnd = now + time.Duration(g.key.LeasePeriod)*time.Second
	}
	return false
}

// getCongestion writes an attribute, and returns the status of the response.
func (g *congestion) getCongestion(now time.Duration, key uint64, h *mad.Header, d *[mad.Len]byte) uint16 {
	data := cc.Data(d)
	stamp := uint32(now / (1024 * time.Nanosecond))
	logType := uint8(cc.LogAdapter)
	if g.isSwitch() {
		logType = cc.LogSwitch
	}
	switch h.Attribute {
	case mad.AttrClassPortInfo:
		c := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: cc.ClassVersion, RespTime: responseTime}
		clear(data[:])
		c.Put((*[mad.ClassPortInfoLen]byte)(data[:]))
	case cc.AttrCongestionInfo:
		var c cc.Congestion
		if !g.isSwitch() {
			c.TableCap = tableBlocks
		}
		clear(data[:])
		c.Put(data)
	case cc.AttrCongestionKeyInfo:
		k := g.key
		if key != k.Key {
			k.Key = 0
		}
		clear(data[:])
		k.Put(data)
	case cc.AttrCongestionLog:
		cc.PutEmptyLog(d, logType, stamp)
	case cc.AttrTimeStamp:
		clear(data[:])
		data[0], data[1], data[2], data[3] = uint8(stamp>>24), uint8(stamp>>16), uint8(stamp>>8), uint8(stamp)
	default:
		b, status := g.congestionBlock(h)
		if status != mad.StatusOK {
			return status
		}
		clear(data[:])
		if s := g.blocks[b]; s != nil {
			*data = *s
		}
	}
	return mad.StatusOK
}

// setCongestion keeps the settings of an attribute, and returns the status of the response.
func (g *congestion) setCongestion(now time.Duration, h *mad.Header, d *[mad.Len]byte) uint16 {
	data := cc.Data(d)
	if h.Attribute == cc.AttrCongestionKeyInfo {
		var k cc.KeyInfo
		k.Parse(data)
		if k.Violations != 0 { // a zero clears the counter
			k.Violations = g.key.Violations
		}
		g.key = k
		return g.getCongestion(now, k.Key, h, d)
	}
	b, status := g.congestionBlock(h)
	if status != mad.StatusOK {
		return status
	}
	clear(data[cc.SettingLen(h.Attribute):])
	kept := *data
	if g.blocks == nil {
		g.blocks = make(map[congestionBlock]*[cc.DataLen]byte)
	}
	g.blocks[b] = &kept
	return mad.StatusOK
}

// congestionBlock returns the block of settings that a request names, and the status if the
// node does not have it.
func (g *congestion) congestionBlock(h *mad.Header) (congestionBlock, uint16) {
	blocks := 0
	switch h.Attribute {
	case cc.AttrSwitchCongestionSetting:
		blocks = 1
	case cc.AttrSwitchPortCongestionSetting:
		blocks = (g.config.NumPorts + cc.PortBlock) / cc.PortBlock // port 0 is the first
	case cc.AttrAdapterCongestionSetting:
		blocks = 1
	case cc.AttrCongestionControlTable:
		blocks = tableBlocks
	}
	ofSwitch := h.Attribute == cc.AttrSwitchCongestionSetting || h.Attribute == cc.AttrSwitchPortCongestionSetting
	switch {
	case blocks == 0 || ofSwitch != g.isSwitch():
		return congestionBlock{}, mad.StatusMethodAttribute
	case h.Modifier >= uint32(blocks):
		return congestionBlock{}, mad.StatusInvalid
	}
	return congestionBlock{h.Attribute, h.Modifier}, mad.StatusOK
}
