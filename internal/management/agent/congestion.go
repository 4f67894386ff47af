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
	key      cc.KeyInfo
	leaseEnd time.Duration
	settings map[congestionBlock]*[cc.DataLen]byte
}

// A congestionBlock is a block of an attribute of settings.
type congestionBlock struct {
	attribute mad.AttributeID
	block     uint32
}

// tableBlocks is the number of blocks of an adapter's CongestionControlTable: 128 entries.
const tableBlocks = 2

// control answers a packet of congestion control. One with a wrong key is discarded.
func (a *Agent) control(now time.Duration, in *Arrival, h *mad.Header, out *Departure) bool {
	if a.congestion == nil {
		a.congestion = &congestion{leaseEnd: Never, settings: make(map[congestionBlock]*[cc.DataLen]byte)}
	}
	c := a.congestion
	if !c.authorize(now, h, cc.Key(in.MAD)) {
		out.discard(reason.SMPManagementKey, 0, uint64(h.Attribute))
		return false
	}
	switch {
	case h.ClassVersion != cc.ClassVersion:
		h.Status = mad.StatusVersion
	case h.Method == mad.MethodGet:
		h.Status = a.getCongestion(now, cc.Key(in.MAD), h, &out.MAD)
	case h.Method == mad.MethodSet:
		h.Status = a.setCongestion(now, h, &out.MAD)
	default:
		h.Status = mad.StatusMethod
	}
	return true
}

// authorize reports whether a key allows a request, and keeps the lease of the node's key.
func (c *congestion) authorize(now time.Duration, h *mad.Header, key uint64) bool {
	if now >= c.leaseEnd {
		c.leaseEnd, c.key.Key, c.key.Protect = Never, 0, false
	}
	if c.key.Key == 0 || key == c.key.Key {
		c.leaseEnd = Never
		return true
	}
	if h.Method == mad.MethodGet && !c.key.Protect {
		return true
	}
	increment(&c.key.Violations)
	if c.key.LeasePeriod != 0 && c.leaseEnd == Never {
		c.leaseEnd = now + time.Duration(c.key.LeasePeriod)*time.Second
	}
	return false
}

// getCongestion writes an attribute, and returns the status of the response.
func (a *Agent) getCongestion(now time.Duration, key uint64, h *mad.Header, d *[mad.Len]byte) uint16 {
	data := cc.Data(d)
	stamp := uint32(now / (1024 * time.Nanosecond))
	logType := uint8(cc.LogAdapter)
	if a.isSwitch() {
		logType = cc.LogSwitch
	}
	switch h.Attribute {
	case mad.AttrClassPortInfo:
		c := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: cc.ClassVersion, RespTime: responseTime}
		clear(data[:])
		c.Put((*[mad.ClassPortInfoLen]byte)(data[:]))
	case cc.AttrCongestionInfo:
		var c cc.Congestion
		if !a.isSwitch() {
			c.TableCap = tableBlocks
		}
		clear(data[:])
		c.Put(data)
	case cc.AttrCongestionKeyInfo:
		k := a.congestion.key
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
		b, status := a.congestionBlock(h)
		if status != mad.StatusOK {
			return status
		}
		clear(data[:])
		if s := a.congestion.settings[b]; s != nil {
			*data = *s
		}
	}
	return mad.StatusOK
}

// setCongestion keeps the settings of an attribute, and returns the status of the response.
func (a *Agent) setCongestion(now time.Duration, h *mad.Header, d *[mad.Len]byte) uint16 {
	data := cc.Data(d)
	if h.Attribute == cc.AttrCongestionKeyInfo {
		var k cc.KeyInfo
		k.Parse(data)
		if k.Violations != 0 { // a zero clears the counter
			k.Violations = a.congestion.key.Violations
		}
		a.congestion.key = k
		return a.getCongestion(now, k.Key, h, d)
	}
	b, status := a.congestionBlock(h)
	if status != mad.StatusOK {
		return status
	}
	clear(data[cc.SettingLen(h.Attribute):])
	kept := *data
	a.congestion.settings[b] = &kept
	return mad.StatusOK
}

// congestionBlock returns the block of settings that a request names, and the status if the
// node does not have it.
func (a *Agent) congestionBlock(h *mad.Header) (congestionBlock, uint16) {
	blocks := 0
	switch h.Attribute {
	case cc.AttrSwitchCongestionSetting:
		blocks = 1
	case cc.AttrSwitchPortCongestionSetting:
		blocks = (a.config.NumPorts + cc.PortBlock) / cc.PortBlock // port 0 is the first
	case cc.AttrAdapterCongestionSetting:
		blocks = 1
	case cc.AttrCongestionControlTable:
		blocks = tableBlocks
	}
	ofSwitch := h.Attribute == cc.AttrSwitchCongestionSetting || h.Attribute == cc.AttrSwitchPortCongestionSetting
	switch {
	case blocks == 0 || ofSwitch != a.isSwitch():
		return congestionBlock{}, mad.StatusMethodAttribute
	case h.Modifier >= uint32(blocks):
		return congestionBlock{}, mad.StatusInvalid
	}
	return congestionBlock{h.Attribute, h.Modifier}, mad.StatusOK
}
