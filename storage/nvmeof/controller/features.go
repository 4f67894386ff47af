package controller

import (
	"time"

	"softrdma/storage/nvmeof/wire"
)

// hostIDLen is the length of a host identifier in bytes.
const hostIDLen = 16

// featureLength returns the length of the data of a command for features.
func featureLength(c *Command) uint64 {
	if wire.Feature(c.CDW10) == wire.FeatureHostID && c.Opcode == wire.AdminGetFeatures {
		return hostIDLen
	}
	return 0
}

// queues returns the numbers of submission and completion queues, less one.
func (q *Queue) queues() uint64 {
	n := uint64(q.subs.limits.Queues - 1)
	return n<<16 | n
}

func (q *Queue) getFeature(c *Command, data []byte) *Refusal {
	m, f := q.controller, wire.Feature(c.CDW10)
	switch {
	case f == wire.FeatureKeepAlive:
		c.result = uint64(m.keepAlive / time.Millisecond)
	case f == wire.FeatureAsyncEvents:
		c.result = uint64(m.asked)
	case m.sub.discovery:
		return refuse(FeatureUnknown, 0, uint64(f))
	case f == wire.FeatureQueues:
		c.result = q.queues()
	case f == wire.FeatureVolatileCache:
		c.result = 1
	case f == wire.FeatureHostID:
		if c.CDW11&1 == 0 { // base 2.0, 5.27.1.25: over fabrics it has 128 bits
			return refuse(FieldValue, 1, uint64(c.CDW11))
		}
		copy(data, m.hostID[:])
	case f == wire.FeatureWriteProtect:
		n := m.sub.find(c.NSID)
		if n == nil {
			return refuse(NamespaceUnknown, 0, uint64(c.NSID))
		}
		if n.ReadOnly {
			c.result = 1
		}
	default:
		return refuse(FeatureUnknown, 0, uint64(f))
	}
	return nil
}

func (q *Queue) setFeature(now time.Time, c *Command) *Refusal {
	m, f := q.controller, wire.Feature(c.CDW10)
	switch {
	case f == wire.FeatureKeepAlive:
		m.setKeepAlive(now, c.CDW11)
		c.result = uint64(m.keepAlive / time.Millisecond)
	case f == wire.FeatureAsyncEvents:
		k := m.structure()
		if unknown := c.CDW11 &^ k.Events &^ wire.AskFirmware; unknown != 0 {
			return refuse(FieldValue, uint64(k.Events), uint64(c.CDW11))
		}
		m.asked = c.CDW11
		m.tell()
	case m.sub.discovery:
		return refuse(FeatureUnknown, 0, uint64(f))
	case f == wire.FeatureQueues:
		if c.CDW11&0xffff == 0xffff || c.CDW11>>16 == 0xffff {
			return refuse(FieldValue, 0xfffe, uint64(c.CDW11))
		}
		c.result = q.queues()
	case f == wire.FeatureHostID:
		return &Refusal{Why: FieldValue, Status: wire.SequenceError | wire.DoNotRetry} // set by connect
	case f == wire.FeatureWriteProtect:
		return &Refusal{Why: FeatureUnknown, Status: wire.FeatureNotChangeable | wire.DoNotRetry, Have: uint64(f)}
	default:
		return refuse(FeatureUnknown, 0, uint64(f))
	}
	return nil
}
