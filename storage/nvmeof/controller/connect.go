package controller

import (
	"time"

	"softrdma/storage/nvmeof/wire"
)

// fabricsLength returns the length of a fabrics command's data on a connected queue.
func (q *Queue) fabricsLength(c *Command) (uint64, *Refusal) {
	switch c.Fabrics() {
	case wire.FabricsConnect:
		return 0, refuse(AlreadyConnected, 0, uint64(q.number))
	case wire.FabricsPropertyGet, wire.FabricsPropertySet:
		if q.number == 0 {
			return 0, nil
		}
	case wire.FabricsDisconnect:
		if q.number != 0 { // base 2.0, 6.4: the command is for I/O queues
			return 0, nil
		}
	}
	return 0, refuse(OpcodeUnknown, 0, uint64(c.Fabrics()))
}

func (q *Queue) fabrics(now time.Time, c *Command, data []byte) *Refusal {
	switch c.Fabrics() {
	case wire.FabricsConnect:
		return q.connect(now, c, data)
	case wire.FabricsPropertyGet:
		return q.getProperty(c)
	case wire.FabricsPropertySet:
		return q.setProperty(c)
	}
	return nil // disconnect: the host ends the connection when it has the completion
}

// badParameter refuses a connect command. The result names the field.
func badParameter(c *Command, why Reason, inData bool, offset uint16, want, have uint64) *Refusal {
	c.result = wire.BadParameter(inData, offset)
	return refuse(why, want, have)
}

// Offsets of fields of the connect command.
const (
	offsetQueue     = 42
	offsetQueueSize = 44
)

// connect connects the queue: an admin queue to a new controller, an I/O queue to its host's.
func (q *Queue) connect(now time.Time, c *Command, data []byte) *Refusal {
	k := c.Connect()
	d, err := wire.ParseConnectData(data)
	if err != nil {
		r := refuse(FieldValue, 0, 0)
		r.Err = err
		return r
	}
	limit := min(q.subs.QueueLimit(k.Queue), int(q.requested.HostSends)+1)
	switch {
	case k.Format != 0:
		return refuse(ConnectFormat, 0, uint64(k.Format))
	case k.Queue != q.requested.Queue:
		return badParameter(c, QueueUnknown, false, offsetQueue, uint64(q.requested.Queue), uint64(k.Queue))
	case k.QueueSize == 0 || int(k.QueueSize) >= limit:
		return badParameter(c, QueueSize, false, offsetQueueSize, uint64(limit), uint64(k.QueueSize)+1)
	}
	sub := q.subs.find(d.Subsystem)
	if sub == nil {
		r := badParameter(c, SubsystemUnknown, true, wire.ConnectOffsetSubsystem, 0, 0)
		r.Detail = d.Subsystem
		return r
	}
	if !sub.allows(d.Host) {
		c.result = wire.BadParameter(true, wire.ConnectOffsetHost)
		r := refuse(HostNotAllowed, 0, 0)
		r.Detail = d.Host
		return r
	}
	var r *Refusal
	if k.Queue == 0 {
		r = q.connectAdmin(now, c, sub, k, d)
	} else {
		r = q.connectIO(c, sub, k, d)
	}
	if r != nil {
		return r
	}
	q.number, q.size, q.noFlow = k.Queue, k.QueueSize+1, k.Attributes&wire.ConnectNoFlowControl != 0
	q.controller.queues[q.number] = q
	c.result = uint64(q.controller.id)
	return nil
}

// connectAdmin makes the controller of an admin queue.
func (q *Queue) connectAdmin(now time.Time, c *Command, sub *Subsystem, k wire.Connect, d wire.ConnectData) *Refusal {
	if d.Controller != wire.AnyController {
		return badParameter(c, ControllerUnknown, true, wire.ConnectOffsetController, wire.AnyController, uint64(d.Controller))
	}
	id := q.subs.newID()
	if id == 0 {
		return refuse(ControllersExhausted, 0, uint64(len(q.subs.controllers)))
	}
	q.controller = &Controller{subs: q.subs, sub: sub, id: id, host: d.Host, hostID: d.HostID, queues: make(map[uint16]*Queue)}
	q.controller.setKeepAlive(now, k.KeepAlive)
	q.subs.controllers[id] = q.controller
	return nil
}

// connectIO connects an I/O queue to its controller.
func (q *Queue) connectIO(c *Command, sub *Subsystem, k wire.Connect, d wire.ConnectData) *Refusal {
	m := q.subs.controllers[d.Controller]
	switch {
	case m == nil || m.sub != sub || m.host != d.Host || m.hostID != d.HostID:
		return badParameter(c, ControllerUnknown, true, wire.ConnectOffsetController, 0, uint64(d.Controller))
	case sub.discovery || int(k.Queue) > q.subs.limits.Queues:
		return badParameter(c, QueueUnknown, false, offsetQueue, uint64(q.subs.limits.Queues), uint64(k.Queue))
	case !m.ready():
		return refuse(NotReady, 0, uint64(m.cc))
	case m.queues[k.Queue] != nil:
		return refuse(QueueInUse, 0, uint64(k.Queue))
	}
	q.controller = m
	return nil
}

func (q *Queue) getProperty(c *Command) *Refusal {
	p, m := c.Property(), q.controller
	switch {
	case p.Property == wire.PropertyCAP && p.Wide:
		c.result = wire.Capabilities(q.subs.limits.QueueSize, readyTimeout)
	case p.Property == wire.PropertyVS && !p.Wide:
		c.result = Version
	case p.Property == wire.PropertyCC && !p.Wide:
		c.result = uint64(m.cc)
	case p.Property == wire.PropertyCSTS && !p.Wide:
		c.result = uint64(m.csts)
	default:
		return refuse(FieldValue, uint64(wire.PropertyCSTS), uint64(p.Property))
	}
	return nil
}

func (q *Queue) setProperty(c *Command) *Refusal {
	p := c.Property()
	if p.Property != wire.PropertyCC || p.Wide {
		return refuse(FieldValue, uint64(wire.PropertyCC), uint64(p.Property))
	}
	q.controller.configure(wire.Configuration(p.Value))
	return nil
}
