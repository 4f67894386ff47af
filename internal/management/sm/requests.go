package sm

import (
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// requests are packets that wait to be sent or for their answers.
type requests struct {
	waiting     []*request
	outstanding map[uint64]*request // by transaction ID
	tid         uint64              // of the last request
	failures    int                 // requests of this sweep that failed
	config      *Config
}

// A request is repeated until it is answered or its tries are used up.
type request struct {
	packet   smp.Packet
	tries    int
	deadline time.Duration
	done     func(answer *smp.Packet) // nil if there was no good answer
}

func (r *requests) empty() bool { return len(r.waiting) == 0 && len(r.outstanding) == 0 }

// ready reports whether a request may be sent.
func (r *requests) ready(limit int) bool { return len(r.waiting) > 0 && len(r.outstanding) < limit }

func (r *requests) deadline() time.Duration {
	first := Never
	for _, q := range r.outstanding {
		first = min(first, q.deadline)
	}
	return first
}

// get asks the agent at the end of a directed route.
func (r *requests) get(path []uint8, a mad.AttributeID, modifier uint32, done func(*smp.Packet)) {
	r.request(smp.NewDirected(mad.MethodGet, a, modifier, 0, r.config.MKey, path), done)
}

// set changes an attribute at the end of a directed route.
func (r *requests) set(path []uint8, a mad.AttributeID, modifier uint32, v interface{ Put(*[smp.DataLen]byte) }, done func(*smp.Packet)) {
	p := smp.NewDirected(mad.MethodSet, a, modifier, 0, r.config.MKey, path)
	v.Put(&p.Data)
	r.request(p, done)
}

// request appends a request. A request without a good answer counts as a failure.
func (r *requests) request(p smp.Packet, done func(*smp.Packet)) {
	r.tid++
	p.TID = r.tid
	r.waiting = append(r.waiting, &request{packet: p, done: done})
}

// send writes the next request, if the number of outstanding ones allows it.
func (r *requests) send(now time.Duration, out *Departure) bool {
	if !r.ready(r.config.Outstanding) {
		return false
	}
	q := r.waiting[0]
	r.waiting[0] = nil
	r.waiting = r.waiting[1:]
	q.tries++
	q.deadline = now + r.config.Timeout
	r.outstanding[q.packet.TID] = q
	*out = Departure{DLID: smp.PermissiveLID}
	q.packet.Put(&out.MAD)
	return true
}

// expire repeats requests whose time is over, and gives up those that were
// repeated often enough.
func (r *requests) expire(now time.Duration) {
	var late []*request
	for _, q := range r.outstanding {
		if q.deadline <= now {
			late = append(late, q)
		}
	}
	sortByTID(late)
	for _, q := range late {
		delete(r.outstanding, q.packet.TID)
		if q.tries <= r.config.Retries {
			r.waiting = append(r.waiting, q)
			continue
		}
		r.failures++
		q.done(nil)
	}
}

// answered completes the request that a response belongs to.
func (r *requests) answered(p *smp.Packet) {
	q := r.outstanding[p.TID]
	if q == nil || q.packet.Attribute != p.Attribute || q.packet.Modifier != p.Modifier {
		return // a late response to a request that was given up, or of another manager
	}
	delete(r.outstanding, p.TID)
	if p.Status != mad.StatusOK {
		r.failures++
		q.done(nil)
		return
	}
	q.done(p)
}

// forget drops all requests without calling their functions.
func (r *requests) forget() {
	r.waiting = nil
	clear(r.outstanding)
}
