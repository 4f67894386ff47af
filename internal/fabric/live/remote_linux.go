package live

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/relay"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A visit is a program on another host that has a connection to the fabric.
type visit struct {
	Caller

	mu  sync.Mutex
	why reason.Detail // for which it ended
}

func (v *visit) end(why reason.Detail) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.why = why
}

func (v *visit) reason() reason.Detail {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why
}

// listenRemote lets programs on other hosts attach, if that is configured.
func (f *Fabric) listenRemote() (err error) {
	c := &f.config.Remote
	if c.Listen.Port() == 0 {
		return nil
	}
	f.unattached = make(chan struct{}, maxWaiting)
	f.remote, err = relay.Listen(c.Listen, f.config.Name, c.Secret, f.network.kind().Headers(), (*host)(f))
	return err
}

// A host is the fabric for programs on other hosts.
type host Fabric

var _ relay.Host = (*host)(nil)

// Call implements relay.Host.
func (h *host) Call(from netip.AddrPort, program string) (relay.Conn, func(reason.Detail), error) {
	f := (*Fabric)(h)
	select {
	case f.unattached <- struct{}{}:
	default:
		return nil, nil, reason.Detail{Reason: reason.FabricRemoteFull, Expected: maxWaiting, Found: maxWaiting}.Err()
	}
	own, theirs, err := attach.Pair()
	if err == nil && !f.enter(own) {
		_, _ = own.Close(), theirs.Close()
		err = net.ErrClosed
	}
	if err != nil {
		<-f.unattached
		return nil, nil, err
	}
	v := &visit{Caller: Caller{From: from, Program: program}}
	f.serving.Go(func() {
		defer f.leave(own)
		f.serve(own, v, func() { <-f.unattached })
	})
	return theirs, v.end, nil
}

// Dropped implements relay.Host.
func (h *host) Dropped(from netip.AddrPort, d reason.Detail) {
	if f := h.config.Remote.Dropped; f != nil {
		f(from, d)
	}
}

// arrive notes that a program on another host is attached. A port whose program was lost comes up
// again with any program.
func (f *Fabric) arrive(a *attachment) {
	if f.unplugged[a.at] {
		delete(f.unplugged, a.at)
		f.network.setCut(f.now(), a.at, false)
	}
	if a.visit != nil {
		f.changed(a.at, a.visit, reason.Detail{})
	}
}

// depart notes that a program is no longer attached. If nothing comes from its host, and no other
// program there has a share of the port, the port goes down, as if the cable to that host were cut.
// It stays up if the program that manages the port has ended in order: programs that were killed
// before are silent.
func (f *Fabric) depart(a *attachment) {
	if a.visit == nil {
		return
	}
	why := a.visit.reason()
	p := f.programs[a.at.Node]
	t := p.of(a.at.Port, a.service)
	silent := why.Reason == reason.FabricRemoteSilent
	if a.share.Lane == 0 {
		t.over = !silent
	}
	if silent && p.any(a.at.Port) == nil && !t.over && !f.network.isCut(a.at) {
		f.unplugged[a.at] = true
		f.network.setCut(f.now(), a.at, true)
	}
	if why.Reason == reason.None {
		why = reason.Detail{Reason: reason.FabricRemoteClosed, Expected: 1}
	}
	f.changed(a.at, a.visit, why)
}

func (f *Fabric) changed(at topology.End, v *visit, why reason.Detail) {
	if c := f.config.Remote.Changed; c != nil {
		c(at, v.Caller, why)
	}
}

// holder says which program is attached.
func (a *attachment) holder() string {
	if a.visit != nil {
		return fmt.Sprintf("a program at %v", a.visit.From)
	}
	return fmt.Sprintf("process %d", a.pid)
}
