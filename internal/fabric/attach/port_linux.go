package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A Port is a port of a fabric to which this program is attached. Any goroutine may call
// its methods.
type Port struct {
	address Address
	network Network
	service hostport.Service // at a port of an Ethernet
	share   *Share           // nil for the whole port
	link    *fabric.Link
	info    atomic.Pointer[Info]
	handler atomic.Pointer[func(*Arrival) bool]
	ended   atomic.Pointer[func(netip.Addr)]
	life    context.Context // until Close
	end     context.CancelFunc
	done    chan struct{}
	closed  sync.Once

	refused   chan *Violation // for report
	reporting atomic.Bool     // report runs

	mu       sync.Mutex // watchers, last, conn, bell, place, sm, hosts, groups
	watchers map[int]func(old, now *Info, e Event)
	last     int
	conn     *Conn // nil without a fabric
	bell     *hostmem.Bell
	relay    <-chan struct{} // see Conn
	place    Place           // where the fabric was found last
	sm       bool
	hosts    map[netip.Addr]hostAnswer // see FindHost
	groups   map[[16]byte]int          // that were joined, and how often

	telling sync.Mutex // held while watchers are called
	joining sync.Mutex // held while a change of groups is sent, so that the fabric learns of changes in their order
}

// Open attaches to a port: "NAME/NODE" or "NAME/NODE:PORT", port 1 without a number. NODE is
// the ID of the node in the topology, its description or its GUID as 0x….
func Open(ctx context.Context, address string) (*Port, error) { return OpenShare(ctx, address, nil) }

// OpenService attaches to a port of an Ethernet: "NAME/NODE", which has the IPv4 address of the host, or
// "NAME/ADDRESS" with one of its addresses. Programs may share the service. A nil share is all of it.
func OpenService(ctx context.Context, address string, s hostport.Service, share *Share) (*Port, error) {
	return open(ctx, address, Ethernet, s, share)
}

// OpenShare attaches to a port that programs share. A nil share is the whole port.
func OpenShare(ctx context.Context, address string, share *Share) (*Port, error) {
	return open(ctx, address, InfiniBand, 0, share)
}

func open(ctx context.Context, address string, n Network, s hostport.Service, share *Share) (*Port, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	p := &Port{address: a, network: n, service: s, share: share, done: make(chan struct{}), refused: make(chan *Violation, maxRefused), watchers: make(map[int]func(*Info, *Info, Event))}
	p.life, p.end = context.WithCancel(context.Background())
	p.info.Store(&Info{Fabric: a.Fabric, Node: a.Node, Port: a.Port})
	if p.link, err = fabric.New(func(reason.Detail) { p.hangUp() }); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", a, err)
	}
	p.link.SetPort(p)
	if err := p.attachFirst(ctx); err != nil {
		_ = p.link.Close()
		return nil, fmt.Errorf("attach to %s: %w", a, err)
	}
	go p.run()
	return p, nil
}

// A fabric needs some time to notice that a program has ended that did not say so: one on another
// host two seconds.
const (
	heldTime = 4 * time.Second
	heldWait = 250 * time.Millisecond
)

// attachFirst attaches for the first time. It waits for a while if the lane is held, or the port of a
// fabric on another host: by a program that has ended.
func (p *Port) attachFirst(ctx context.Context) (held error) {
	waits := p.share != nil && p.share.Lane > 0 || p.address.remote()
	for begin := time.Now(); ; {
		err := p.attach(ctx)
		var named *reason.Error
		switch {
		case errors.As(err, &named) && named.Detail.Reason == reason.FabricHeld:
			held = err
		case err == nil || held == nil:
			return err
		default: // who holds the port says more than that the time is over
			return held
		}
		if !waits || time.Since(begin) > heldTime {
			return held
		}
		select {
		case <-ctx.Done():
			return held
		case <-time.After(heldWait):
		}
	}
}

// maxRefused is the number of violations that may wait for the fabric. More are not reported.
const maxRefused = 64

// Violated tells the fabric of a packet that the program's adapter has refused. It does not
// wait.
func (p *Port) Violated(v *Violation) {
	select {
	case p.refused <- v:
	default:
	}
	if p.reporting.CompareAndSwap(false, true) {
		go p.report()
	}
}

// SetMember tells the fabric that a membership of the program begins or ends.
func (p *Port) SetMember(m Membership, on bool) {
	if c := p.connection(); c != nil {
		_ = c.Send(m.message(on)) // a fabric that has gone has no members
	}
}

// report sends what Violated leaves, until nothing is left.
func (p *Port) report() {
	for {
		select {
		case v := <-p.refused:
			if c := p.connection(); c != nil {
				_ = c.Send(v.Message()) // the fabric may have gone
			}
			continue
		default:
		}
		p.reporting.Store(false)
		if len(p.refused) == 0 || !p.reporting.CompareAndSwap(false, true) {
			return
		}
	}
}

// Info returns what the port is now.
func (p *Port) Info() *Info { return p.info.Load() }

// Place returns where the fabric was found, for other programs at the port.
func (p *Port) Place() *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.place
	return &at
}

// Link returns the link of the port's packets, from LRH to ICRC, but those of queue pair 0.
// It is one lane. Close closes it.
func (p *Port) Link() *fabric.Link { return p.link }

// Watch calls f after each change, with the Infos before and after it. f neither blocks
// nor calls the port. After stop has returned, f is not called any more.
func (p *Port) Watch(f func(old, now *Info, e Event)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	n := p.last
	p.watchers[n] = f
	return func() {
		p.telling.Lock()
		defer p.telling.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, n)
	}
}

// HandleMAD sets the function that gets the packets of queue pair 0 that no agent or manager
// of the node has taken. It reports whether it has taken the packet.
func (p *Port) HandleMAD(f func(*Arrival) bool) { p.handler.Store(&f) }

// HandleStackEnded sets the function that gets the address of each host of an Ethernet whose program with
// TCP has ended. Such a program may have been killed: nothing else tells its peers.
func (p *Port) HandleStackEnded(f func(netip.Addr)) { p.ended.Store(&f) }

// SendMAD sends a packet from queue pair 0: by its directed route, or by LID.
func (p *Port) SendMAD(d *Departure) error {
	c := p.connection()
	if c == nil {
		return reason.Detail{Reason: reason.FabricGone, Expected: 1}.Err()
	}
	return c.Send(d.Message())
}

// SetSM says whether a subnet manager runs at the port (capability IsSM).
func (p *Port) SetSM(on bool) error {
	p.mu.Lock()
	p.sm = on
	c := p.conn
	p.mu.Unlock()
	if c == nil {
		return nil // the next fabric learns of it when the port attaches
	}
	return c.Send(setSM(on))
}

func setSM(on bool) []byte {
	b := []byte{byte(SetSM), 0}
	if on {
		b[1] = 1
	}
	return b
}

// Close ends the attachment and its link.
func (p *Port) Close() error {
	p.closed.Do(p.leave)
	err := p.link.Close()
	if errors.Is(err, link.ErrClosed) {
		err = nil // its user has closed it, or an earlier call has
	}
	return err
}

// Leave ends an attachment to a fabric on another host, and not its link, for a program that is about to
// end: that fabric would notice the end late. A fabric on this host notices it by itself.
func (p *Port) Leave() {
	if p.address.remote() {
		p.closed.Do(p.leave)
	}
}

func (p *Port) leave() {
	p.end()
	p.hangUp()
	<-p.done
	if p.relay != nil {
		<-p.relay // it sends what the program has sent before
	}
}

func (p *Port) connection() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// hangUp ends the connection: run then attaches again, or ends.
func (p *Port) hangUp() {
	if c := p.connection(); c != nil {
		_ = c.Close()
	}
}

// The waits between attempts to attach again.
const (
	firstWait = 10 * time.Millisecond
	longWait  = time.Second
)

// run receives what the fabric says, and attaches again after it has gone.
func (p *Port) run() {
	defer close(p.done)
	for {
		for p.receive() == nil {
		}
		p.detach()
		if !p.attachAgain() {
			return
		}
	}
}

// attachAgain tries until it succeeds, and reports false once the port is closed.
func (p *Port) attachAgain() bool {
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		select {
		case <-p.life.Done():
			return false
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(p.life, answerTime)
		err := p.attach(ctx)
		cancel()
		if err == nil {
			return true
		}
	}
}

// receive handles one message.
func (p *Port) receive() error {
	b, fds, err := p.conn.Receive()
	fds.Close()
	if err != nil {
		return err
	}
	switch Kind(b[0]) {
	case Changed:
		var m InfoBody
		if err := Protocol.Parse(b, &m); err != nil {
			return err
		}
		p.update(&m)
	case Arrived:
		var a Arrival
		if err := a.Parse(b); err != nil {
			return err
		}
		if f := p.handler.Load(); f != nil {
			(*f)(&a)
		}
	case StackEnded:
		ip, err := ParseAddr(b)
		if err != nil {
			return err
		}
		if f := p.ended.Load(); f != nil {
			(*f)(ip.Unmap())
		}
	default:
		return malformed(uint64(Changed), uint64(b[0]))
	}
	return nil
}

// detach notes that the fabric has gone.
func (p *Port) detach() {
	p.mu.Lock()
	c, bell := p.conn, p.bell
	p.conn, p.bell, p.hosts = nil, nil, nil
	p.mu.Unlock()
	_ = c.Close()
	p.link.Disconnect()
	bell.Close()
	now := *p.Info()
	now.Up = false
	now.PortInfo.State, now.PortInfo.Physical = smp.PortDown, smp.PhysicalPolling
	p.update(&InfoBody{Info: now})
}

// update publishes an Info and tells the watchers.
func (p *Port) update(m *InfoBody) {
	p.telling.Lock()
	defer p.telling.Unlock()
	old, now := p.Info(), &m.Info
	now.Fabric = p.address.Fabric // as this host names it
	p.info.Store(now)
	p.link.SetLID(ib.LID(now.PortInfo.LID), now.PortInfo.LMC)
	events := changes(old, now)
	if m.Reregister {
		events = append(events, ClientReregister)
	}
	if len(events) == 0 {
		events = []Event{InfoChanged}
	}
	p.mu.Lock()
	list := make([]func(old, now *Info, e Event), 0, len(p.watchers))
	for _, f := range p.watchers {
		list = append(list, f)
	}
	p.mu.Unlock()
	for _, e := range events {
		for _, f := range list {
			f(old, now, e)
		}
	}
}
