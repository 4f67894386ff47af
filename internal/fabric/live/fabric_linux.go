package live

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/relay"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
	"softrdma/internal/wake"
)

// A Fabric is a subnet that runs.
type Fabric struct {
	config   Config
	names    []string // by node, as programs name them
	path     string
	listener *net.UnixListener
	start    time.Time
	life     wake.Lifetime
	sleeper  wake.Sleeper
	bells    *hostmem.Bells
	work     chan func()
	closing  chan struct{}
	ended    chan struct{} // the loop has returned
	once     sync.Once
	serving  sync.WaitGroup // the loop, the listener and all connections

	remote     *relay.Server // nil without programs on other hosts
	unattached chan struct{} // one for each client not yet attached to a port

	mu    sync.Mutex
	conns map[*attach.Conn]bool

	// The loop holds owner, except while it sleeps. Then others may do its work; see post.
	owner    sync.Mutex
	alarm    time.Duration // when the loop wakes up by itself
	armed    []*attachment // whose rings wake it
	held     bool          // the node holds a packet of one of them: any event may make room for that
	network  network
	managed                   // of an InfiniBand subnet
	programs map[int]*program // by node
	trunks   *trunks
	hot      []*attachment // whose rings are looked at
	linger   linger
	todo     todo
}

// managed is what a fabric has that is an InfiniBand subnet.
type managed struct {
	subnet  *subnet.Subnet
	manager *sm.Manager
	leaves  uint64 // transactions of leaveGroups

	unplugged map[topology.End]bool // ports that are down because their program was lost
}

// A todo lists attachments for which the loop has something to do.
type todo struct {
	wrote   []*attachment // whose program has not been woken for what was put
	stale   []*attachment // whose program is to learn of changes
	blocked []*attachment // of shared ports, without room
}

// Start runs a fabric until Close.
func Start(c Config) (f *Fabric, err error) {
	if err := attach.CheckName(c.Name); err != nil {
		return nil, err
	}
	if c.Ethernet != nil {
		err := lan.Check(c.Fabric)
		if p := c.Ethernet.Prefix; err == nil && p.IsValid() {
			err = lan.CheckPrefix(c.Fabric, p)
		}
		if err != nil {
			return nil, fmt.Errorf("fabric %s: %w", c.Name, err)
		}
	}
	f = &Fabric{
		config: c, names: c.Fabric.Names(), start: time.Now(), work: make(chan func(), 256), closing: make(chan struct{}), ended: make(chan struct{}), conns: make(map[*attach.Conn]bool),
		programs: make(map[int]*program), managed: managed{unplugged: make(map[topology.End]bool)},
	}
	if c.Ethernet != nil {
		n := newEthernet(f)
		if err := lan.CheckBuffers(n.lan); err != nil {
			return nil, fmt.Errorf("fabric %s: %w (--buffer)", c.Name, err)
		}
		f.network = n
	} else {
		f.network = newInfiniBand(f)
	}
	if f.bells, err = hostmem.NewBells(); err != nil {
		return nil, err
	}
	if err := f.sleeper.Init(); err != nil {
		f.bells.Close()
		return nil, err
	}
	f.life.Init(func() {
		f.sleeper.Free()
		f.bells.Close()
	})
	if f.trunks, err = newTrunks(f); err == nil {
		if err = f.listen(); err != nil {
			f.trunks.close(0)
		}
	}
	if err != nil {
		f.life.Close(f.sleeper.Interrupt)
		return nil, fmt.Errorf("fabric %s: %w", c.Name, err)
	}
	f.serving.Go(f.loop)
	f.serving.Go(f.accept)
	if err := f.listenRemote(); err != nil {
		return nil, errors.Join(fmt.Errorf("fabric %s: programs on other hosts: %w", c.Name, err), f.Close())
	}
	return f, nil
}

// Close ends the fabric. Its programs see their ports go down.
func (f *Fabric) Close() error {
	err := errors.New("fabric closed already")
	f.once.Do(func() {
		f.unpublish()
		err = f.listener.Close()
		close(f.closing)
		f.mu.Lock()
		for c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.wake()
		f.serving.Wait()
		if f.remote != nil {
			_ = f.remote.Close() // its relays end with their connections
		}
		f.life.Close(f.sleeper.Interrupt)
	})
	return err
}

// Do calls fn in the goroutine that owns the subnet, and reports whether it was called. m is
// nil without a manager.
func (f *Fabric) Do(fn func(now time.Duration, s *subnet.Subnet, m *sm.Manager)) bool {
	return f.call(func() { fn(f.now(), f.subnet, f.manager) })
}

// Ask answers a question by Config.Control, or that of the Ethernet.
func (f *Fabric) Ask(question []byte) (answer []byte, err error) {
	err = net.ErrClosed
	f.call(func() { answer, err = f.network.answer(question) })
	return answer, err
}

// call calls a function in the loop, and reports whether it was called. If not, the loop has
// ended.
func (f *Fabric) call(fn func()) bool {
	done := make(chan struct{})
	f.post(func() {
		fn()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-f.ended:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Socket returns the path of the fabric's socket.
func (f *Fabric) Socket() string { return f.path }

// post leaves a function to the loop, unless that has ended. It waits while the loop has many. If the loop
// sleeps, the caller calls the function and sends what follows from it: to wake the loop takes longer.
func (f *Fabric) post(fn func()) {
	if f.owner.TryLock() {
		f.doWork() // which came before
		fn()
		now := f.now()
		f.run(now)
		late := f.due() < f.alarm || len(f.hot) > 0 || f.held
		f.owner.Unlock()
		if late {
			f.wake()
		}
		return
	}
	select {
	case f.work <- fn:
		f.wake()
	case <-f.ended:
	}
}

func (f *Fabric) wake() {
	if f.sleeper.Set() && f.life.Enter() {
		f.sleeper.Interrupt()
		f.life.Leave()
	}
}

// now is the real time since the start.
func (f *Fabric) now() time.Duration { return time.Since(f.start) }

// run does what is due.
func (f *Fabric) run(now time.Duration) {
	until := now + ahead
	if d := f.network.deadline(); d < until-slice {
		until = d + slice
	}
	f.unblock(now)
	f.network.run(now, until)
	f.trunks.send(now)
	f.ring()
	f.tell()
}

// loop owns the subnet.
func (f *Fabric) loop() {
	f.owner.Lock() // without end
	defer close(f.ended)
	for {
		select {
		case <-f.closing:
			f.trunks.close(f.now())
			return
		default:
		}
		now := f.now()
		busy := f.doWork()
		busy = f.trunks.receive(now) || busy
		f.run(now)
		// What the nodes refused is offered again after each event, which may have made room.
		for _, a := range f.hot {
			resumed := a.resume(now)
			busy = a.pull(now) || resumed || busy
		}
		f.rest(busy)
	}
}

// doWork calls what was left to the loop, and reports whether there was something.
func (f *Fabric) doWork() (some bool) {
	for range cap(f.work) {
		select {
		case fn := <-f.work:
			fn()
			some = true
		default:
			return some
		}
	}
	return some
}

// due returns when the loop has something to do next.
func (f *Fabric) due() time.Duration {
	d := f.network.deadline()
	if d != never {
		d -= ahead
	}
	return min(d, f.trunks.deadline(), f.unblockAt())
}

// sleep waits until something is due or a program wants something.
func (f *Fabric) sleep() {
	wait := time.Duration(-1)
	if f.alarm = f.due(); f.alarm != never {
		if wait = f.alarm - f.now(); wait <= 0 {
			return
		}
	}
	for i, a := range f.hot {
		if !a.end.Arm(a.refused()) {
			for _, b := range f.hot[:i] {
				b.end.Disarm()
			}
			return
		}
	}
	f.armed, f.hot, f.held = f.hot, f.armed[:0], false
	for _, a := range f.armed {
		a.hot = false
		f.held = f.held || a.refused() != 0
	}
	trunks := f.trunks.descriptor()
	f.owner.Unlock()
	ready, _ := f.sleeper.Sleep(&f.life, wait, f.bells.FD(), trunks)
	f.owner.Lock()
	for i, a := range f.armed { // rings stay armed until their bell rings
		if a.refused() != 0 {
			f.heat(a)
		}
		f.armed[i] = nil
	}
	if ready&1 != 0 {
		f.bells.Rung(func(owner any) { f.heat(owner.(*attachment)) })
	}
}

// heat makes the loop look at the rings of a program.
func (f *Fabric) heat(a *attachment) {
	if a.hot || a.ended {
		return
	}
	a.hot = true
	a.end.Disarm()
	f.hot = append(f.hot, a)
}

// cool ends heat.
func (f *Fabric) cool(a *attachment) {
	if i := slices.Index(f.hot, a); i >= 0 {
		f.hot = slices.Delete(f.hot, i, i+1)
	}
	a.hot = false
}

// ring wakes the programs that sleep and got packets.
func (f *Fabric) ring() {
	for i, a := range f.todo.wrote {
		a.ring()
		f.todo.wrote[i] = nil
	}
	f.todo.wrote = f.todo.wrote[:0]
}

// findPort returns the port that a program asks for, and on Ethernet what it gets there. Only adapters
// have ports for programs.
func (f *Fabric) findPort(h *attach.HelloBody) (at topology.End, s service, err error) {
	i, addr, err := f.network.named(h.Node)
	if err != nil {
		return at, s, refused(h, 0, err)
	}
	n := &f.config.Fabric.Nodes[i]
	if n.Kind == topology.Switch {
		return at, s, refused(h, 0, fmt.Errorf("%s is a switch: programs attach to adapters", n.ID))
	}
	if int(h.Port) > n.NumPorts() || h.Port == 0 {
		return at, s, refused(h, n.NumPorts(), fmt.Errorf("%s has ports 1 to %d, found %d", n.ID, n.NumPorts(), h.Port))
	}
	at = topology.End{Node: i, Port: int(h.Port)}
	if f.config.Ethernet != nil && f.config.Fabric.Port(at).Peer.Port == 0 {
		return at, s, refused(h, 1, fmt.Errorf("port %d of %s has no cable, and so no address", h.Port, n.ID))
	}
	return at, service{h.Service, addr}, nil
}
