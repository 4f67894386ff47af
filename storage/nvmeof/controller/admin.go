package controller

import (
	"math/bits"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/reserve"
	"softrdma/storage/nvmeof/wire/status"
)

// adminCommands and blockCommands are the opcodes of the log page of supported commands.
var (
	adminCommands = []capsule.Opcode{
		capsule.AdminGetLogPage, capsule.AdminIdentify, capsule.AdminAbort, capsule.AdminSetFeatures, capsule.AdminGetFeatures,
		capsule.AdminAsyncEvent, capsule.AdminKeepAlive,
	}
	blockCommands = []capsule.Opcode{
		capsule.Flush, capsule.Write, capsule.Read, capsule.Compare, capsule.WriteZeroes, capsule.DatasetManagement,
		capsule.ReservationRegister, capsule.ReservationReport, capsule.ReservationAcquire, capsule.ReservationRelease,
	}
	writeCommands = []capsule.Opcode{capsule.Write, capsule.WriteZeroes, capsule.DatasetManagement}
)

// adminLength returns the length of an admin command's data.
func (q *Queue) adminLength(c *Command) (uint64, *Refusal) {
	switch c.Opcode {
	case capsule.AdminIdentify:
		return identify.Len, nil
	case capsule.AdminGetLogPage:
		_, _, _, length, _ := logpage.Fields(&c.Command)
		return length, nil
	case capsule.AdminGetFeatures, capsule.AdminSetFeatures:
		return featureLength(c), nil
	case capsule.AdminAbort:
		if q.controller.sub.discovery {
			break
		}
		return 0, nil
	case capsule.AdminAsyncEvent, capsule.AdminKeepAlive:
		return 0, nil
	}
	return 0, refuse(OpcodeUnknown, 0, uint64(c.Opcode))
}

func (q *Queue) admin(now time.Time, c *Command, data []byte) *Refusal {
	switch c.Opcode {
	case capsule.AdminIdentify:
		return q.identify(c, data)
	case capsule.AdminGetLogPage:
		return q.logPage(c, data)
	case capsule.AdminGetFeatures:
		return q.getFeature(c, data)
	case capsule.AdminSetFeatures:
		return q.setFeature(now, c)
	case capsule.AdminAsyncEvent:
		return q.askEvent(c)
	case capsule.AdminAbort:
		// Every command ends by itself. Bit 0 says that the command was not aborted.
		c.result = 1
	case capsule.AdminKeepAlive:
		if q.controller.keepAlive == 0 {
			return &Refusal{Why: FieldValue, Status: status.KeepAliveInvalid}
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
	sub, cns, set := m.sub, identify.CNS(c.CDW10), uint8(c.CDW11>>24)
	data = data[:0]
	if sub.discovery && cns != identify.CNSController {
		return refuse(FieldValue, uint64(identify.CNSController), uint64(cns))
	}
	switch cns {
	case identify.CNSCommandSetNamespace, identify.CNSCommandSetController, identify.CNSCommandSetActive:
		if set != 0 { // the NVM command set is the only one
			return refuse(FieldValue, 0, uint64(set))
		}
	}
	switch cns {
	case identify.CNSController:
		k := m.structure()
		k.Append(data)
	case identify.CNSActiveNamespaces, identify.CNSCommandSetActive:
		if c.NSID >= capsule.AllNamespaces-1 {
			return refuse(NamespaceUnknown, 0, uint64(c.NSID))
		}
		identify.AppendNamespaces(data, sub.ids(), c.NSID)
	case identify.CNSCommandSetController:
		clear(data[:identify.Len])
	case identify.CNSNamespace, identify.CNSDescriptors, identify.CNSIndependent, identify.CNSCommandSetNamespace:
		return sub.identify(cns, c.NSID, data)
	default:
		return refuse(FieldValue, uint64(identify.CNSController), uint64(cns))
	}
	return nil
}

// identify fills in one of the structures of a namespace.
func (sub *Subsystem) identify(cns identify.CNS, id uint32, data []byte) *Refusal {
	n := sub.find(id)
	if n == nil && (cns != identify.CNSNamespace || id == 0 || id > maxNamespace) {
		return refuse(NamespaceUnknown, 0, uint64(id))
	}
	var s identify.Namespace
	if n != nil {
		s = n.structure()
	}
	switch cns {
	case identify.CNSNamespace: // of an inactive namespace: zeros
		s.Append(data)
	case identify.CNSDescriptors:
		d := identify.Descriptors{NGUID: n.NGUID, UUID: n.UUID}
		d.Append(data)
	case identify.CNSIndependent:
		s.AppendIndependent(data)
	default:
		clear(data[:identify.Len])
	}
	return nil
}

// structure returns what identify says about the controller.
func (m *Controller) structure() identify.Controller {
	l := &m.subs.limits
	k := identify.Controller{
		Serial: m.sub.Serial, Model: m.sub.Model, Firmware: firmware, Controller: m.id, Version: Version,
		MaxTransfer: uint8(bits.Len(uint(l.MaxTransfer)) - 13), Type: identify.ControllerIO,
		Attributes: identify.AttributeHostID128 | identify.AttributeTrafficKeeps,
		EventLimit: uint8(l.Events - 1), AbortLimit: 3, LogAttributes: identify.LogExtendedSupported, ErrorEntries: errorEntries - 1,
		KeepAliveGranularity: keepAliveUnit, MaxCommands: uint16(l.QueueSize),
		SGLs: identify.SGLSupported | identify.SGLKeyedSupported, Subsystem: m.sub.NQN,
		CommandCapsule: capsule.CommandLen / 16, ResponseCapsule: capsule.CompletionLen / 16, MaxDescriptors: 1,
	}
	if m.sub.discovery {
		k.Type, k.Events = identify.ControllerDiscovery, logpage.AskDiscoveryChanged
		k.MaxCommands = AdminQueueSize
		return k
	}
	k.Events = logpage.AskNamespaceChanged | logpage.AskANAChanged
	k.LogAttributes |= identify.LogEffectsSupported
	k.MultiPath = identify.MultiPathPorts | identify.MultiPathControllers | identify.MultiPathANA
	k.ANATransition, k.ANACapabilities, k.ANAGroups = 10, 0x1f, maxGroups
	k.Namespaces, k.MaxActive = maxNamespace, maxNamespace
	k.Commands = identify.CommandCompare | identify.CommandDatasetManagement | identify.CommandWriteZeroes | identify.CommandReservations
	k.VolatileCache = 1 | 2<<1 // present; flush of all namespaces at once is not supported
	k.FabricsCommands = 1      // disconnect
	if l.CapsuleData > 0 {
		k.SGLs |= identify.SGLOffsetSupported
		k.CommandCapsule += uint32(l.CapsuleData / 16)
	}
	return k
}

// structure returns what identify says about the namespace.
func (n *Namespace) structure() identify.Namespace {
	s := identify.Namespace{
		Blocks: n.blocks(), Capacity: n.blocks(), Used: n.blocks(), Sharing: 1, Reserves: reserve.AllTypes, Deallocate: identify.DeallocatedZeroes,
		ANAGroup: n.Group, NGUID: n.NGUID, BlockShift: uint8(bits.Len(uint(n.Block)) - 1),
	}
	if n.ReadOnly {
		s.Attributes = 1
	}
	return s
}
