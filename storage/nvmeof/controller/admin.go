package controller

import (
	"math/bits"
	"time"

	"softrdma/storage/nvmeof/wire"
)

// adminCommands and blockCommands are the opcodes of the log page of supported commands.
var (
	adminCommands = []wire.Opcode{
		wire.AdminGetLogPage, wire.AdminIdentify, wire.AdminAbort, wire.AdminSetFeatures, wire.AdminGetFeatures,
		wire.AdminAsyncEvent, wire.AdminKeepAlive,
	}
	blockCommands = []wire.Opcode{wire.Flush, wire.Write, wire.Read, wire.Compare, wire.WriteZeroes, wire.DatasetManagement}
	writeCommands = []wire.Opcode{wire.Write, wire.WriteZeroes, wire.DatasetManagement}
)

// adminLength returns the length of an admin command's data.
func (q *Queue) adminLength(c *Command) (uint64, *Refusal) {
	switch c.Opcode {
	case wire.AdminIdentify:
		return wire.IdentifyLen, nil
	case wire.AdminGetLogPage:
		_, _, _, length, _ := c.Log()
		return length, nil
	case wire.AdminGetFeatures, wire.AdminSetFeatures:
		return featureLength(c), nil
	case wire.AdminAbort:
		if q.controller.sub.discovery {
			break
		}
		return 0, nil
	case wire.AdminAsyncEvent, wire.AdminKeepAlive:
		return 0, nil
	}
	return 0, refuse(OpcodeUnknown, 0, uint64(c.Opcode))
}

func (q *Queue) admin(now time.Time, c *Command, data []byte) *Refusal {
	switch c.Opcode {
	case wire.AdminIdentify:
		return q.identify(c, data)
	case wire.AdminGetLogPage:
		return q.logPage(c, data)
	case wire.AdminGetFeatures:
		return q.getFeature(c, data)
	case wire.AdminSetFeatures:
		return q.setFeature(now, c)
	case wire.AdminAsyncEvent:
		return q.askEvent(c)
	case wire.AdminAbort:
		// Every command ends by itself. Bit 0 says that the command was not aborted.
		c.result = 1
	case wire.AdminKeepAlive:
		if q.controller.keepAlive == 0 {
			return &Refusal{Why: FieldValue, Status: wire.KeepAliveInvalid}
		}
	}
	return nil
}

// askEvent holds an event request until there is an event.
func (q *Queue) askEvent(c *Command) *Refusal {
	m := q.controller
	if len(m.held) >= q.subs.limits.Events {
		return refuse(EventLimit, uint64(q.subs.limits.Events), uint64(len(m.held)+1))
	}
	m.held = append(m.held, c.ID)
	c.State = Held
	m.tell()
	return nil
}

// identify fills in one of the structures of 4,096 bytes.
func (q *Queue) identify(c *Command, data []byte) *Refusal {
	m := q.controller
	sub, cns, set := m.sub, wire.CNS(c.CDW10), uint8(c.CDW11>>24)
	data = data[:0]
	if sub.discovery && cns != wire.CNSController {
		return refuse(FieldValue, uint64(wire.CNSController), uint64(cns))
	}
	switch cns {
	case wire.CNSController:
		k := m.structure()
		k.Append(data)
		return nil
	case wire.CNSActiveNamespaces, wire.CNSCommandSetActive:
		if c.NSID >= wire.AllNamespaces-1 {
			return refuse(NamespaceUnknown, 0, uint64(c.NSID))
		}
		wire.AppendNamespaces(data, sub.ids(), c.NSID)
		return nil
	case wire.CNSCommandSetController:
		if set != 0 {
			return refuse(FieldValue, 0, uint64(set))
		}
		clear(data[:wire.IdentifyLen])
		return nil
	}
	n := sub.find(c.NSID)
	if n == nil && (cns != wire.CNSNamespace || c.NSID == 0 || c.NSID > maxNamespace) {
		return refuse(NamespaceUnknown, 0, uint64(c.NSID))
	}
	var s wire.IdentifyNamespace
	if n != nil {
		s = n.structure()
	}
	switch {
	case cns == wire.CNSNamespace: // of an inactive namespace: zeros
		s.Append(data)
	case cns == wire.CNSDescriptors:
		d := wire.Descriptors{NGUID: n.NGUID, UUID: n.UUID}
		d.Append(data)
	case cns == wire.CNSIndependent:
		s.AppendIndependent(data)
	case cns == wire.CNSCommandSetNamespace && set == 0:
		clear(data[:wire.IdentifyLen])
	default:
		return refuse(FieldValue, uint64(wire.CNSController), uint64(cns))
	}
	return nil
}

// structure returns what identify says about the controller.
func (m *Controller) structure() wire.IdentifyController {
	l := &m.subs.limits
	k := wire.IdentifyController{
		Serial: m.sub.Serial, Model: m.sub.Model, Firmware: firmware, Controller: m.id, Version: Version,
		MaxTransfer: uint8(bits.Len(uint(l.MaxTransfer)) - 13), Type: wire.ControllerIO,
		Attributes: wire.AttributeHostID128 | wire.AttributeTrafficKeeps,
		EventLimit: uint8(l.Events - 1), AbortLimit: 3, LogAttributes: wire.LogExtendedSupported, ErrorEntries: errorEntries - 1,
		KeepAliveGranularity: keepAliveUnit, MaxCommands: uint16(l.QueueSize),
		SGLs: wire.SGLSupported | wire.SGLKeyedSupported, Subsystem: m.sub.NQN,
		CommandCapsule: wire.CommandLen / 16, ResponseCapsule: wire.CompletionLen / 16, MaxDescriptors: 1,
	}
	if m.sub.discovery {
		k.Type, k.Events = wire.ControllerDiscovery, wire.AskDiscoveryChanged
		k.MaxCommands = AdminQueueSize
		return k
	}
	k.Events = wire.AskNamespaceChanged | wire.AskANAChanged
	k.LogAttributes |= wire.LogEffectsSupported
	k.MultiPath = wire.MultiPathPorts | wire.MultiPathControllers | wire.MultiPathANA
	k.ANATransition, k.ANACapabilities, k.ANAGroupMax, k.ANAGroups = 10, 0x1f, maxGroups, maxGroups
	k.Namespaces, k.MaxActive = maxNamespace, maxNamespace
	k.Commands = wire.CommandCompare | wire.CommandDatasetManagement | wire.CommandWriteZeroes
	k.VolatileCache = 1 | 2<<1 // present; flush of all namespaces at once is not supported
	k.FabricsCommands = 1      // disconnect
	if l.CapsuleData > 0 {
		k.SGLs |= wire.SGLOffsetSupported
		k.CommandCapsule += uint32(l.CapsuleData / 16)
	}
	return k
}

// structure returns what identify says about the namespace.
func (n *Namespace) structure() wire.IdentifyNamespace {
	s := wire.IdentifyNamespace{
		Blocks: n.blocks(), Capacity: n.blocks(), Used: n.blocks(), Sharing: 1, Deallocate: wire.DeallocatedZeroes,
		ANAGroup: n.Group, NGUID: n.NGUID, BlockShift: uint8(bits.Len(uint(n.Block)) - 1),
	}
	if n.ReadOnly {
		s.Attributes = 1
	}
	return s
}
