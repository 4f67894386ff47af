package controller

import (
	"time"

	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
)

// fabricsLength returns the length of a fabrics command's data on a connected queue.
func (q *Queue) fabricsLength(c *Command) (uint64, *Refusal) {
	switch c.Fabrics() {
	case capsule.FabricsConnect:
		return 0, refuse(AlreadyConnected, 0, uint64(q.number))
	case capsule.FabricsPropertyGet, capsule.FabricsPropertySet:
		if q.number == 0 {
			return 0, nil
		}
	case capsule.FabricsAuthSend, capsule.FabricsAuthReceive:
		return q.authLength(c)
	case capsule.FabricsDisconnect:
		if q.number != 0 { // base 2.0, 6.4: the command is for I/O queues
			return 0, nil
		}
	}
	return 0, refuse(OpcodeUnknown, 0, uint64(c.Fabrics()))
}

func (q *Queue) fabrics(now time.Time, c *Command, data []byte) *Refusal {
	switch c.Fabrics() {
	case capsule.FabricsConnect:
		return q.connect(now, c, data)
	case capsule.FabricsPropertyGet:
		return q.getProperty(c)
	case capsule.FabricsPropertySet:
		return q.setProperty(c)
	}
	return nil // disconnect: the host ends the connection when it has the completion
}

// badParameter refuses a connect command. The result names the field.
func badParameter(c *Command, why Reason, inData bool, offset uint16, want, have uint64) *Refusal {
	c.result = fabrics.BadParameter(inData, offset)
	return refuse(why, want, have)
}

// Offsets of fields of the connect command.
const (
	offsetQueue     = 42
	offsetQueueSize = 44
)

// connect connects the queue: an admin queue to a new controller, an I/O queue to its host's.
func (q *Queue) connect(now time.Time, c *Command, data []byte) *Refusal {
	if q.controller != nil { // by a command that began at the same time
		return refuse(AlreadyConnected, 0, uint64(q.number))
	}
	k := fabrics.ConnectOf(&c.Command)
	d, err := fabrics.ParseConnectData(data)
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
		r := badParameter(c, SubsystemUnknown, true, fabrics.ConnectOffsetSubsystem, 0, 0)
		r.Detail = d.Subsystem
		return r
	}
	if !sub.allows(d.Host) {
		c.result = fabrics.BadParameter(true, fabrics.ConnectOffsetHost)
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
	q.number, q.size, q.noFlow = k.Queue, k.QueueSize+1, k.Attributes&fabrics.ConnectNoFlowControl != 0
	c.result = uint64(q.controller.id)
	if s := sub.Secrets.For(d.Host); !s.Host.IsZero() {
		q.auth = auth.NewController(auth.Names{Host: d.Host, Subsystem: sub.NQN}, s)
		c.result |= fabrics.ConnectAuthRequired
		if q.number != 0 {
			q.controller.guests[q] = struct{}{}
			return nil
		}
	}
	return q.join()
}

// join makes the queue one of its controller. A queue for I/O that must be authenticated joins when it is:
// names of hosts are no secrets, so others could take the place of a host's queue.
func (q *Queue) join() *Refusal {
	m := q.controller
	switch {
	case q.joined:
		return nil
	case q.subs.controllers[m.id] != m: // it has ended
		return &Refusal{Why: NotReady, Status: NotReady.Status(), Have: uint64(m.cc)}
	case m.queues[q.number] != nil:
		return refuse(QueueInUse, 0, uint64(q.number))
	}
	delete(m.guests, q)
	m.queues[q.number], q.joined = q, true
	return nil
}

// connectAdmin makes the controller of an admin queue.
func (q *Queue) connectAdmin(now time.Time, c *Command, sub *Subsystem, k fabrics.Connect, d fabrics.ConnectData) *Refusal {
	if d.Controller != fabrics.AnyController {
		return badParameter(c, ControllerUnknown, true, fabrics.ConnectOffsetController, fabrics.AnyController, uint64(d.Controller))
	}
	id := q.subs.newID()
	if id == 0 {
		return refuse(ControllersExhausted, 0, uint64(len(q.subs.controllers)))
	}
	q.controller = &Controller{subs: q.subs, sub: sub, id: id, host: d.Host, hostID: d.HostID, queues: make(map[uint16]*Queue), guests: make(map[*Queue]struct{})}
	q.controller.setKeepAlive(now, k.KeepAlive)
	q.subs.controllers[id] = q.controller
	return nil
}

// connectIO connects an I/O queue to its controller.
func (q *Queue) connectIO(c *Command, sub *Subsystem, k fabrics.Connect, d fabrics.ConnectData) *Refusal {
	m := q.subs.controllers[d.Controller]
	switch {
	case m == nil || m.sub != sub || m.host != d.Host || m.hostID != d.HostID:
		return badParameter(c, ControllerUnknown, true, fabrics.ConnectOffsetController, 0, uint64(d.Controller))
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
	p, m := fabrics.PropertyOf(&c.Command), q.controller
	switch {
	case p.Property == fabrics.PropertyCAP && p.Wide:
		c.result = fabrics.Capabilities(q.subs.limits.QueueSize, readyTimeout)
	case p.Property == fabrics.PropertyVS && !p.Wide:
		c.result = Version
	case p.Property == fabrics.PropertyCC && !p.Wide:
		c.result = uint64(m.cc)
	case p.Property == fabrics.PropertyCSTS && !p.Wide:
		c.result = uint64(m.csts)
	default:
		return refuse(FieldValue, uint64(fabrics.PropertyCSTS), uint64(p.Property))
	}
	return nil
}

func (q *Queue) setProperty(c *Command) *Refusal {
	p := fabrics.PropertyOf(&c.Command)
	if p.Property != fabrics.PropertyCC || p.Wide {
		return refuse(FieldValue, uint64(fabrics.PropertyCC), uint64(p.Property))
	}
	q.controller.configure(fabrics.Configuration(p.Value))
	return nil
}
