package controller

import (
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// hostIDLen is the length of a host identifier in bytes.
const hostIDLen = 16

// featureLength returns the length of the data of a command for features.
func featureLength(c *Command) uint64 {
	if capsule.Feature(c.CDW10) == capsule.FeatureHostID && c.Opcode == capsule.AdminGetFeatures {
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
	m, f := q.controller, capsule.Feature(c.CDW10)
	switch {
	case f == capsule.FeatureKeepAlive:
		c.result = uint64(m.keepAlive / time.Millisecond)
	case f == capsule.FeatureAsyncEvents:
		c.result = uint64(m.asked)
	case m.sub.discovery:
		return refuse(FeatureUnknown, 0, uint64(f))
	case f == capsule.FeatureQueues:
		c.result = q.queues()
	case f == capsule.FeatureVolatileCache:
		c.result = 1
	case f == capsule.FeatureHostID:
		if c.CDW11&1 == 0 { // base 2.0, 5.27.1.25: over fabrics it has 128 bits
			return refuse(FieldValue, 1, uint64(c.CDW11))
		}
		copy(data, m.hostID[:])
	case f == capsule.FeatureReservations:
		if m.sub.find(c.NSID) == nil {
			return refuse(NamespaceUnknown, 0, uint64(c.NSID))
		}
		c.result = uint64(m.notices.masked[c.NSID])
	case f == capsule.FeatureWriteProtect:
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

// saveFeature is the bit of CDW10 that asks set features for a value that outlives resets.
const saveFeature = 1 << 31

func (q *Queue) setFeature(now time.Time, c *Command) *Refusal {
	m, f := q.controller, capsule.Feature(c.CDW10)
	switch {
	case c.CDW10&saveFeature != 0: // base 2.0, 5.27: no feature is
		return &Refusal{Why: FeatureUnknown, Status: status.FeatureNotSaveable | status.DoNotRetry, Have: uint64(f), Detail: "it is to be saved"}
	case f == capsule.FeatureKeepAlive:
		m.setKeepAlive(now, c.CDW11)
		c.result = uint64(m.keepAlive / time.Millisecond)
	case f == capsule.FeatureAsyncEvents:
		k := m.structure()
		if unknown := c.CDW11 &^ k.Events &^ logpage.AskFirmware; unknown != 0 {
			return refuse(FieldValue, uint64(k.Events), uint64(c.CDW11))
		}
		m.asked = c.CDW11
		m.tell()
	case m.sub.discovery:
		return refuse(FeatureUnknown, 0, uint64(f))
	case f == capsule.FeatureQueues:
		if c.CDW11&0xffff == 0xffff || c.CDW11>>16 == 0xffff {
			return refuse(FieldValue, 0xfffe, uint64(c.CDW11))
		}
		c.result = q.queues()
	case f == capsule.FeatureHostID:
		return &Refusal{Why: FieldValue, Status: status.SequenceError | status.DoNotRetry} // set by connect
	case f == capsule.FeatureReservations:
		return m.maskNotices(c.NSID, c.CDW11)
	case f == capsule.FeatureWriteProtect:
		return &Refusal{Why: FeatureUnknown, Status: status.FeatureNotChangeable | status.DoNotRetry, Have: uint64(f)}
	default:
		return refuse(FeatureUnknown, 0, uint64(f))
	}
	return nil
}
