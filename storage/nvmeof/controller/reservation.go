package controller

import (
	"slices"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/reserve"
	"softrdma/storage/nvmeof/wire/status"
)

// maxRegistrants is how many hosts may be registered with a namespace. Anyone who may connect chooses
// identifiers of hosts.
const maxRegistrants = 256

// A reservation is what the hosts of a namespace have agreed on (base 2.0, 8.19): who has registered a key, and
// who holds the namespace. It belongs to hosts, so it outlives their controllers, and ends with the target.
type reservation struct {
	generation  uint32
	registrants []registrant // in the order of their registration
	kind        reserve.ReservationType
	holder      reserver // not of a kind that all registrants hold
}

// A reserver is a host to reservations. One with the identifier 0 is no other host's, and not known again: its
// controller stands for it (base 2.0, 5.27.1.25).
type reserver struct {
	host       [16]byte
	controller uint16 // only of the host 0
}

// reserver returns the controller's host.
func (c *Controller) reserver() reserver {
	if c.hostID == [16]byte{} {
		return reserver{controller: c.id}
	}
	return reserver{host: c.hostID}
}

type registrant struct {
	host reserver
	key  uint64
}

func (r *reservation) find(host reserver) *registrant {
	if i := slices.IndexFunc(r.registrants, func(x registrant) bool { return x.host == host }); i >= 0 {
		return &r.registrants[i]
	}
	return nil
}

// holds reports whether a host holds the reservation.
func (r *reservation) holds(host reserver) bool {
	if r.kind.AllHold() {
		return r.find(host) != nil
	}
	return r.kind != 0 && r.holder == host
}

// allows reports whether a host may access the namespace (base 2.0, figure 106).
func (r *reservation) allows(host reserver, writes bool) bool {
	return r.kind == 0 || !writes && r.kind.WritesOnly() || r.holds(host) || r.kind.Registrants() && r.find(host) != nil
}

// A notice is what a host is told of what others do.
type notice struct {
	host reserver
	kind logpage.ReservationNotice
}

// others returns notices for the registrants but one.
func (r *reservation) others(host reserver, kind logpage.ReservationNotice) (list []notice) {
	for _, x := range r.registrants {
		if x.host != host {
			list = append(list, notice{x.host, kind})
		}
	}
	return list
}

// register registers a key, replaces it or removes the registration.
func (r *reservation) register(host reserver, f reserve.ReservationFields, key, other uint64) ([]notice, *Refusal) {
	x := r.find(host)
	known := x != nil && (f.IgnoreKey || x.key == key)
	switch {
	case f.Action == reserve.RegisterKey && x != nil && x.key != other:
		return nil, refuse(ReservationConflict, 0, other)
	case f.Action == reserve.RegisterKey && x == nil && len(r.registrants) >= maxRegistrants:
		return nil, refuse(RegistrantLimit, maxRegistrants, uint64(len(r.registrants)+1))
	case f.Action == reserve.RegisterKey && x == nil:
		r.registrants = append(r.registrants, registrant{host, other})
	case f.Action == reserve.RegisterKey: // again
	case f.Action > reserve.ReplaceKey:
		return nil, refuse(FieldValue, reserve.ReplaceKey, uint64(f.Action))
	case !known:
		return nil, refuse(ReservationConflict, 0, key)
	case f.Action == reserve.ReplaceKey:
		x.key = other
	default:
		r.generation++
		return r.unregister(host), nil
	}
	r.generation++
	return nil, nil
}

// unregister removes a host. Its reservation ends, unless the other registrants hold it, too.
func (r *reservation) unregister(host reserver) (told []notice) {
	held := r.holds(host)
	r.registrants = slices.DeleteFunc(r.registrants, func(x registrant) bool { return x.host == host })
	switch {
	case !held || r.kind.AllHold() && len(r.registrants) > 0:
	case r.kind.Registrants():
		told = r.others(host, logpage.ReservationReleased)
		fallthrough
	default:
		r.kind = 0
	}
	return told
}

// acquire makes a registrant the holder.
func (r *reservation) acquire(host reserver, f reserve.ReservationFields, key, other uint64) ([]notice, *Refusal) {
	x := r.find(host)
	switch {
	case f.IgnoreKey:
		return nil, refuse(FieldValue, 0, 1)
	case !f.Type.Valid():
		return nil, refuse(FieldValue, uint64(reserve.ExclusiveAccessAllRegistrants), uint64(f.Type))
	case f.Action > reserve.PreemptReservation: // commands that have begun cannot be aborted
		return nil, refuse(FieldValue, reserve.PreemptReservation, uint64(f.Action))
	case x == nil || x.key != key:
		return nil, refuse(ReservationConflict, 0, key)
	case f.Action == reserve.PreemptReservation:
		return r.preempt(host, other, f.Type)
	case r.kind == 0:
		r.kind, r.holder = f.Type, host
	case !r.holds(host) || r.kind != f.Type:
		return nil, refuse(ReservationConflict, 0, key)
	}
	return nil, nil
}

// preempt removes the registrants that have a key, and takes the reservation if it is theirs (base 2.0, 8.19.7).
func (r *reservation) preempt(host reserver, key uint64, kind reserve.ReservationType) (told []notice, _ *Refusal) {
	old, all := r.kind, r.kind.AllHold() && key == 0
	takes := all
	if r.kind != 0 && !r.kind.AllHold() {
		holder := r.find(r.holder)
		takes = holder != nil && holder.key == key
	}
	var gone []reserver
	for _, x := range r.registrants {
		if all && x.host != host || x.key == key && !(takes && x.host == host) {
			gone = append(gone, x.host)
		}
	}
	switch {
	case key == 0 && !all:
		return nil, refuse(FieldValue, 0, 0)
	case len(gone) == 0 && !takes:
		return nil, refuse(ReservationConflict, 0, key)
	}
	r.generation++
	if takes { // first, so that no other host has access in between
		r.kind, r.holder = kind, host
	}
	for _, x := range gone {
		told = append(told, r.unregister(x)...)
		if x != host {
			told = append(told, notice{x, logpage.RegistrationPreempted})
		}
	}
	if takes && old != kind {
		told = append(told, r.others(host, logpage.ReservationReleased)...)
	}
	return told, nil
}

// release ends the reservation of its holder, or all registrations.
func (r *reservation) release(host reserver, f reserve.ReservationFields, key uint64) (told []notice, _ *Refusal) {
	x := r.find(host)
	switch {
	case f.IgnoreKey:
		return nil, refuse(FieldValue, 0, 1)
	case f.Action > reserve.ClearReservations:
		return nil, refuse(FieldValue, reserve.ClearReservations, uint64(f.Action))
	case x == nil || x.key != key:
		return nil, refuse(ReservationConflict, 0, key)
	case f.Action == reserve.ClearReservations:
		told = r.others(host, logpage.ReservationPreempted)
		*r = reservation{generation: r.generation + 1}
	case !r.holds(host):
	case r.kind != f.Type:
		return nil, refuse(ReservationConflict, uint64(r.kind), uint64(f.Type))
	default:
		if r.kind.Registrants() {
			told = r.others(host, logpage.ReservationReleased)
		}
		r.kind = 0
	}
	return told, nil
}

// report returns the registrants and the holder.
func (r *reservation) report() []byte {
	b := reserve.AppendReservationReport(nil, r.generation, r.kind, len(r.registrants))
	for _, x := range r.registrants {
		b = reserve.AppendRegistrant(b, r.holds(x.host), x.key, x.host.host)
	}
	return b
}

// reserves reports whether a command is for reservations.
func (c *Command) reserves() bool {
	switch c.Opcode {
	case capsule.ReservationRegister, capsule.ReservationReport, capsule.ReservationAcquire, capsule.ReservationRelease:
		return true
	}
	return false
}

// reserve executes a reservation command. Linux's hosts ask for reservations that outlive power cycles, whether
// the controller has them or not, so that field is ignored as Linux's target does.
func (q *Queue) reserve(c *Command, n *Namespace, data []byte) *Refusal {
	host, r := q.controller.reserver(), &n.reservation
	if c.Opcode == capsule.ReservationReport {
		if c.CDW11&1 == 0 { // the structure with short identifiers
			return &Refusal{Why: FieldValue, Status: status.HostIDFormat | status.DoNotRetry, Want: 1}
		}
		clear(data[copy(data, r.report()):])
		return nil
	}
	key, other, err := reserve.ReservationKeys(data)
	if err != nil {
		return &Refusal{Why: FieldValue, Status: status.InvalidField | status.DoNotRetry, Err: err}
	}
	f := reserve.ReservationOf(&c.Command)
	var told []notice
	var refused *Refusal
	switch c.Opcode {
	case capsule.ReservationRegister:
		told, refused = r.register(host, f, key, other)
	case capsule.ReservationAcquire:
		told, refused = r.acquire(host, f, key, other)
	default:
		told, refused = r.release(host, f, key)
	}
	q.subs.notify(q.controller.sub, n.ID, told)
	return refused
}

// notify adds notices to the log pages of the hosts' controllers.
func (s *Subsystems) notify(sub *Subsystem, nsid uint32, told []notice) {
	for _, x := range told {
		for _, c := range s.controllers {
			if c.sub == sub && c.reserver() == x.host {
				c.notices.add(x.kind, nsid)
				c.noticed()
			}
		}
	}
}

// unregister ends the registrations of a host that is not known again after the controller.
func (c *Controller) unregister() {
	host := c.reserver()
	if host.controller == 0 {
		return
	}
	for _, n := range c.sub.namespaces {
		if n.reservation.find(host) != nil {
			n.reservation.generation++
			c.subs.notify(c.sub, n.ID, n.reservation.unregister(host))
		}
	}
}

// maxNotices is how many notices of reservations a controller keeps.
const maxNotices = 64

// notices are the log page of reservations: one notice after the other, which reading removes.
type notices struct {
	count  uint64 // of all
	list   []logpage.ReservationEntry
	masked map[uint32]uint32 // kinds that the host does not want to hear of, by namespace
	raised bool              // and not read
}

func (l *notices) add(kind logpage.ReservationNotice, nsid uint32) {
	if l.masked[nsid]>>kind&1 != 0 {
		return
	}
	l.count++
	if len(l.list) < maxNotices { // the numbers show how many are lost
		l.list = append(l.list, logpage.ReservationEntry{Count: l.count, Kind: kind, NSID: nsid})
	}
}

// noticed raises the event of the log page of reservations, once until the host reads it.
func (c *Controller) noticed() {
	if c.notices.raised || len(c.notices.list) == 0 {
		return
	}
	c.notices.raised = true
	c.pending = append(c.pending, logpage.EventReservation)
	c.tell()
}

// page returns the log page of reservations: the oldest notice.
func (l *notices) page() []byte {
	var e logpage.ReservationEntry
	if len(l.list) > 0 {
		e = l.list[0]
		e.More = uint8(len(l.list) - 1)
	}
	return e.Append(nil)
}

// noticeRead removes the oldest notice, which the host has read.
func (c *Controller) noticeRead() {
	if l := &c.notices; len(l.list) > 0 {
		l.list, l.raised = l.list[1:], false
		c.noticed()
	}
}

// maskNotices sets the notices that the host does not want to hear of.
func (c *Controller) maskNotices(nsid, mask uint32) *Refusal {
	ids := []uint32{nsid}
	switch {
	case mask&^logpage.ReservationNotices != 0:
		return refuse(FieldValue, logpage.ReservationNotices, uint64(mask))
	case nsid == capsule.AllNamespaces:
		ids = c.sub.ids()
	case c.sub.find(nsid) == nil:
		return refuse(NamespaceUnknown, 0, uint64(nsid))
	}
	if c.notices.masked == nil {
		c.notices.masked = make(map[uint32]uint32)
	}
	for _, id := range ids {
		c.notices.masked[id] = mask
	}
	return nil
}
