package live

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A program is what is attached to the ports of a node.
type program struct {
	fabric   *Fabric
	node     int
	ports    []tenants // by number; of a host of an Ethernet those with whole frames
	services []served  // of a host of an Ethernet, which has one port; in the order of their first use
}

// A served is the programs of a service.
type served struct {
	service
	tenants
}

// A service is what a program has of the port of a host of an Ethernet. It is zero in other fabrics.
type service struct {
	kind hostport.Service
	addr netip.Addr // of the host
}

// whole reports whether a program gets all that comes to its port.
func (s service) whole() bool { return !s.addr.IsValid() || s.kind == hostport.WholeFrames }

// of returns the programs of a service at a port, nil if there are none.
func (p *program) of(port int, s service) *tenants {
	if s.whole() {
		return &p.ports[port]
	}
	for i := range p.services {
		if x := &p.services[i]; x.service == s {
			return &x.tenants
		}
	}
	return nil
}

// enter gives a program its part of a port. It returns the program that is in the way if there is one.
func (p *program) enter(a *attachment) (held *attachment) {
	if a.service.kind == hostport.WholeFrames {
		if held := p.any(a.at.Port); held != nil {
			return held
		}
	} else if held := p.ports[a.at.Port].any(); held != nil && !a.service.whole() {
		return held
	}
	t := p.of(a.at.Port, a.service)
	if t == nil {
		p.services = append(p.services, served{service: a.service})
		t = &p.services[len(p.services)-1].tenants
	}
	return t.enter(a)
}

// several reports whether programs of more than one service are at a host of an Ethernet.
func (p *program) several() bool {
	n := 0
	for i := range p.services {
		if p.services[i].any() != nil {
			n++
		}
	}
	return n > 1
}

// all returns the programs at a port.
func (p *program) all(port int) iter.Seq[*attachment] {
	return func(yield func(*attachment) bool) {
		for i := -1; i < len(p.services); i++ {
			t := &p.ports[port]
			if i >= 0 {
				t = &p.services[i].tenants
			}
			for _, a := range t.lanes {
				if a != nil && !yield(a) {
					return
				}
			}
		}
	}
}

// any returns the first program at a port, nil if the port is free.
func (p *program) any(port int) *attachment {
	for a := range p.all(port) {
		return a
	}
	return nil
}

// Programs implements control.Host.
func (p *program) Programs(port int) (list []hostport.Program) {
	for a := range p.all(port) {
		x := hostport.Program{Process: a.pid}
		if a.visit != nil {
			x.Remote = a.visit.From.String()
		}
		if a.service.addr.IsValid() {
			x.Device = p.fabric.deviceName(a)
		}
		list = append(list, x)
	}
	return list
}

func (f *Fabric) drop(at topology.End, d reason.Detail) {
	if f.config.Dropped != nil {
		f.config.Dropped(at, d)
	}
}

// An attachment is a program at a port. The loop owns it.
type attachment struct {
	fabric  *Fabric
	at      topology.End
	service service
	share   attach.Share // of the port, or of the service
	pid     int          // 0 for a program on another host
	visit   *visit       // nil for one on this host
	end     *fabric.End
	bell    *hostmem.Bell   // the program rings it
	ringer  *hostmem.Ringer // rings the program's
	outbox  *outbox
	ended   bool
	gone    chan struct{} // closed when the port is free again

	hot     bool // in Fabric.hot
	in      [fabric.Levels]input
	next    uint8 // service level that pull looks at first
	out     train
	full    uint16        // service levels whose ring to the program had no room
	since   time.Duration // when full was 0 last, if the port is shared
	blocked bool          // in Fabric.todo
	unheard uint16        // service levels with packets that the program was not woken for

	members    map[attach.Membership]struct{}
	info       attach.Info // as the program knows it
	stale      bool        // in Fabric.todo
	reregister bool
}

// An input is the message of a service level that is being sent.
type input struct {
	batch fabric.Batch
	at    int        // bytes of it that were read
	frame []byte     // that the node did not take yet, with VCRC; nil if there is none
	wired *dcb.Frame // whose content is frame, on Ethernet
}

// pullBudget is the number of packets that one program sends in a round.
const pullBudget = 128

// pull sends what the program has put into its rings, and reports whether there was something.
func (a *attachment) pull(now time.Duration) (some bool) {
	budget := pullBudget
	for levels := a.end.Waiting() | a.refused(); levels != 0; {
		sl := fabric.NextLevel(levels, a.next)
		levels &^= 1 << sl
		a.next = (sl + 1) % fabric.Levels
		for budget > 0 && !a.ended && a.pullOne(now, sl) {
			some = true
			budget--
		}
	}
	return some
}

// pullOne sends the next packet of a service level, if there is one and the node takes it.
func (a *attachment) pullOne(now time.Duration, sl uint8) bool {
	x := &a.in[sl]
	if x.frame == nil {
		if len(x.batch.Data) == 0 {
			ok, fault := a.end.Next(sl, &x.batch)
			if fault.Reason != reason.None {
				a.fail(fault)
			}
			if !ok {
				return false
			}
			x.at = 0
		}
		if !a.fabric.network.read(a, sl, x) {
			return true
		}
	}
	if !a.fabric.network.send(now, a, x) {
		return false
	}
	x.frame, x.wired = nil, nil
	return true
}

// size is the length of the next packet.
func (x *input) size() int { return min(x.batch.Size, len(x.batch.Data)-x.at) }

// advance notes that n bytes of a message were read, and frees it at its end.
func (a *attachment) advance(level uint8, x *input, n int) {
	if x.at += n; x.at == len(x.batch.Data) {
		x.batch.Data = nil
		if a.end.Release(level) {
			a.ringer.Ring()
		}
	}
}

// refused returns the service levels of which the node did not take a packet.
func (a *attachment) refused() (set uint16) {
	for sl := range a.in {
		if a.in[sl].frame != nil {
			set |= 1 << sl
		}
	}
	return set
}

// fail ends an attachment whose program broke the rules.
func (a *attachment) fail(d reason.Detail) {
	a.ended = true
	a.fabric.drop(a.at, d)
	a.outbox.close()
}

// changed notes that the program is to learn of a change.
func (a *attachment) changed() {
	if !a.stale {
		a.stale = true
		a.fabric.todo.stale = append(a.fabric.todo.stale, a)
	}
}

// tell tells programs what changed.
func (f *Fabric) tell() {
	for _, a := range f.todo.stale {
		a.stale = false
		now := f.network.describe(a)
		if a.ended || !a.reregister && reflect.DeepEqual(&a.info, &now) {
			continue
		}
		a.info = now
		a.outbox.info(&attach.InfoBody{Info: now, Reregister: a.reregister})
		a.reregister = false
	}
	f.todo.stale = f.todo.stale[:0]
}

// attach gives a port to a program and returns the state of the port. If another program has the
// port, attach returns that program as held, and an error.
func (f *Fabric) attach(a *attachment) (info attach.Info, held *attachment, err error) {
	p := f.programs[a.at.Node]
	if p == nil {
		p = &program{fabric: f, node: a.at.Node, ports: make([]tenants, len(f.config.Fabric.Nodes[a.at.Node].Ports))}
		f.programs[a.at.Node] = p
		f.network.plug(p)
	}
	several := p.several()
	if held := p.enter(a); held != nil {
		text := fmt.Sprintf("%s is attached to it: ", held.holder())
		switch {
		case held.isSystem():
			text += "an interface (softrdma fabric tap) has the host alone: end it first"
		case a.isSystem():
			text += "an interface (softrdma fabric tap) wants the host alone: end it first"
		case p.of(a.at.Port, held.service).manager() == nil:
			text = fmt.Sprintf("%s is attached to it, which a softrdma daemon or exec started that has ended: end its programs first", held.holder())
		default:
			text += "share the port by softrdma daemon -d " + f.deviceName(held)
		}
		return attach.Info{}, held, &reason.Error{
			Detail: reason.Detail{Reason: reason.FabricHeld, Expected: uint64(a.pid), Found: uint64(held.pid)},
			Text:   text,
		}
	}
	if !several && p.several() {
		f.joined(f.now(), a)
	}
	a.info = f.network.describe(a)
	f.heat(a)
	f.arrive(a)
	if e, ok := f.network.(*ethernetNetwork); ok && a.isSystem() {
		e.joinSystem(a)
	}
	return a.info, nil, nil
}

// free frees what the loop does not use any more.
func (a *attachment) free() error {
	a.outbox.close()
	a.bell.Close()
	return errors.Join(a.ringer.Close(), a.end.Close())
}
