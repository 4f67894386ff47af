package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// hostAccess are the rights of a controller in memory of the host.
const hostAccess = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite

// A link is what a controller is while it is connected: its queues. It ends with the first of them, and
// the next connection is another link.
type link struct {
	c     *Controller
	pd    *verbs.PD
	id    uint16 // of the controller at the target
	admin *queue
	io    []*queue
	next  atomic.Uint32
	about identify.Controller
	ana   atomic.Pointer[map[uint32]logpage.ANAState] // of groups; nil if the controller has none
	keys  atomic.Pointer[[]key]                       // of registered memory

	stop context.CancelFunc
	work sync.WaitGroup

	once    sync.Once
	failed  chan struct{} // closed by fail
	why     error         // set before failed is closed
	changed chan struct{} // a log page or a namespace has changed

	mu  sync.Mutex
	all []*queue // connected
}

// adminEntries is the size of the admin queue.
const adminEntries = 32

// connect makes a link.
func (c *Controller) connect(ctx context.Context) (_ *link, err error) {
	l := &link{c: c, failed: make(chan struct{}), changed: make(chan struct{}, 1)}
	background, stop := context.WithCancel(context.Background())
	l.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(false))
		}
	}()
	if err := l.connectAdmin(ctx); err != nil {
		return nil, err
	}
	if c.cfg.Subsystem != logpage.DiscoveryNQN {
		for _, step := range []func(context.Context) error{l.connectIO, l.readANA, l.askEvents} {
			if err := step(ctx); err != nil {
				return nil, err
			}
		}
		l.work.Go(func() { l.follow(background) })
	}
	if c.cfg.KeepAlive > 0 {
		l.work.Go(func() { l.keepAlive(background) })
	}
	if c.cfg.CommandTimeout > 0 {
		l.work.Go(func() { l.watch(background) })
	}
	return l, nil
}

// queues returns the queues that are connected.
func (l *link) queues() []*queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// on says that the queues are on a device.
func (l *link) on(dev *verbs.Device) (err error) {
	if l.pd == nil {
		l.pd, err = dev.AllocPD()
		return err
	}
	if l.pd.Device() != dev {
		return errors.New("the queues of a controller are on different devices")
	}
	return nil
}

// connectAdmin connects the admin queue and enables the controller.
func (l *link) connectAdmin(ctx context.Context) (err error) {
	if l.admin, err = l.dialQueue(ctx, 0, adminEntries); err != nil {
		return err
	}
	ms := max(0, l.c.cfg.KeepAlive/time.Millisecond)
	id, err := l.connectQueue(ctx, l.admin, fabrics.Connect{QueueSize: adminEntries - 1, KeepAlive: uint32(ms)}, fabrics.AnyController)
	if err != nil {
		return err
	}
	l.id = uint16(id)
	enable := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}
	if _, err := l.admin.do(ctx, enable.Command(true), nil); err != nil {
		return fmt.Errorf("enable the controller: %w", err)
	}
	state, err := l.admin.do(ctx, fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
	for err == nil && state&(fabrics.StatusReady|fabrics.StatusFatal) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		state, err = l.admin.do(ctx, fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
	}
	if err == nil && state&fabrics.StatusFatal != 0 {
		err = fmt.Errorf("the controller failed when it was enabled: status %#x", state)
	}
	if err != nil {
		return err
	}
	b := make([]byte, identify.Len)
	if err := l.identify(ctx, identify.CNSController, 0, b); err != nil {
		return err
	}
	l.about, err = identify.ParseController(b)
	return err
}

// connectQueue sends the connect command of a queue.
func (l *link) connectQueue(ctx context.Context, q *queue, k fabrics.Connect, id uint16) (uint64, error) {
	cfg := &l.c.cfg
	d := fabrics.ConnectData{HostID: cfg.HostID, Controller: id, Subsystem: cfg.Subsystem, Host: cfg.Host}
	result, err := q.do(ctx, k.Command(), d.Append(nil))
	if failed := (*status.Error)(nil); errors.As(err, &failed) && failed.Status.Code() == status.ConnectInvalid {
		err = fmt.Errorf("the target does not accept %s: %w", fabrics.BadParameterName(failed.Result), err)
	}
	if err != nil {
		return 0, fmt.Errorf("connect queue %d to %s: %w", k.Queue, cfg.Subsystem, err)
	}
	return result, q.authenticate(ctx, cfg, result)
}

// connectIO connects the I/O queues, as many as the controller allows.
func (l *link) connectIO(ctx context.Context) error {
	n := max(l.c.cfg.Queues, 1)
	allowed, err := l.admin.do(ctx, capsule.Command{
		Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureQueues), CDW11: uint32(n-1)<<16 | uint32(n-1),
	}, nil)
	if err != nil {
		return fmt.Errorf("ask for queues: %w", err)
	}
	n = min(n, int(allowed&0xffff)+1, int(allowed>>16&0xffff)+1)
	entries := min(l.c.cfg.QueueSize, max(2, int(l.about.MaxCommands)))
	for number := uint16(1); int(number) <= n; number++ {
		q, err := l.dialQueue(ctx, number, entries)
		if err != nil {
			return err
		}
		l.io = append(l.io, q)
		if _, err := l.connectQueue(ctx, q, fabrics.Connect{Queue: number, QueueSize: uint16(entries - 1)}, l.id); err != nil {
			return err
		}
		if l.about.SGLs&identify.SGLOffsetSupported != 0 && l.about.CapsuleOffset == 0 {
			q.capsule = max(0, int(l.about.CommandCapsule)*16-capsule.CommandLen)
		}
	}
	return nil
}

func (l *link) identify(ctx context.Context, cns identify.CNS, nsid uint32, b []byte) error {
	_, err := l.admin.do(ctx, capsule.Command{Opcode: capsule.AdminIdentify, NSID: nsid, CDW10: uint32(cns)}, b)
	if err != nil {
		return fmt.Errorf("identify (CNS %#02x): %w", uint8(cns), err)
	}
	return nil
}

// keepAlive sends keep-alive commands until ctx ends.
func (l *link) keepAlive(ctx context.Context) {
	tick := time.NewTicker(l.c.cfg.KeepAlive / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, l.c.cfg.KeepAlive)
		_, err := l.admin.do(within, capsule.Command{Opcode: capsule.AdminKeepAlive}, nil)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.fail(fmt.Errorf("keep alive: %w", err))
			return
		}
	}
}

// watchTicks is how many times within the timeout of commands the host looks at them.
const watchTicks = 8

// watch ends the link if a command has no completion in time.
func (l *link) watch(ctx context.Context) {
	tick := time.NewTicker(max(l.c.cfg.CommandTimeout/watchTicks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, q := range l.queues() {
			if q.overdue(watchTicks) {
				l.fail(fmt.Errorf("expected the completion of a command on queue %d within %v, found none", q.number, l.c.cfg.CommandTimeout))
				return
			}
		}
	}
}

// askEvents asks the controller to tell changes of namespaces and of their paths.
func (l *link) askEvents(ctx context.Context) error {
	ask := l.about.Events & (logpage.AskANAChanged | logpage.AskNamespaceChanged)
	if ask == 0 {
		return nil
	}
	set := capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents), CDW11: ask}
	if _, err := l.admin.do(ctx, set, nil); err != nil {
		return fmt.Errorf("ask for events: %w", err)
	}
	return l.admin.sendEvents()
}

// event handles an asynchronous event, and asks for the next one.
func (l *link) event(result uint32) error {
	if kind := result & 0xffff07; kind == logpage.EventANAChanged || kind == logpage.EventNamespaceChanged {
		l.change()
	}
	return l.admin.sendEvents()
}

// change makes the link read again what is known about paths to namespaces.
func (l *link) change() {
	select {
	case l.changed <- struct{}{}:
	default: // it will
	}
}

// transition returns a channel that says when a group of namespaces has been changing for too long, nil if
// none is. As in Linux it may take twice as long as the controller says (base 2.0, 8.1.3.5: ANATT).
func (l *link) transition() <-chan time.Time {
	if states := l.ana.Load(); states != nil && l.about.ANATransition > 0 {
		for _, state := range *states {
			if state == logpage.ANAStateChanging {
				return time.After(l.transitionTime())
			}
		}
	}
	return nil
}

func (l *link) transitionTime() time.Duration {
	return 2 * time.Duration(l.about.ANATransition) * time.Second
}

// follow follows changes until ctx ends.
func (l *link) follow(ctx context.Context) {
	overdue := l.transition()
	for {
		select {
		case <-ctx.Done():
			return
		case <-overdue:
			l.fail(fmt.Errorf("expected the end of a change of paths within %v", l.transitionTime()))
			return
		case <-l.changed:
		}
		err := l.readANA(ctx)
		if err == nil {
			err = l.ackNamespaces(ctx)
		}
		if err != nil && ctx.Err() == nil {
			l.fail(err)
			return
		}
		overdue = l.transition()
		l.c.attachAll(ctx, l)
	}
}

// readANA reads the states of groups of namespaces.
func (l *link) readANA(ctx context.Context) error {
	if l.about.MultiPath&identify.MultiPathANA == 0 {
		return nil
	}
	b := make([]byte, min(slotBytes, limitOf(l), logpage.MaxANALen(int(l.about.ANAGroups), 0)))
	get := logpage.Command(logpage.ANA, 0, uint32(len(b)))
	get.CDW10 |= logpage.ANAGroupsOnly
	if _, err := l.admin.do(ctx, get, b); err != nil {
		return fmt.Errorf("read the ANA log page: %w", err)
	}
	_, groups, err := logpage.ParseANA(b)
	if err != nil {
		return err
	}
	states := make(map[uint32]logpage.ANAState)
	for _, g := range groups {
		states[g.ID] = g.State
	}
	l.ana.Store(&states)
	return nil
}

// ackNamespaces reads the list of changed namespaces, without which the controller tells no further
// change.
func (l *link) ackNamespaces(ctx context.Context) error {
	if l.about.Events&logpage.AskNamespaceChanged == 0 {
		return nil
	}
	b := make([]byte, identify.Len)
	if _, err := l.admin.do(ctx, logpage.Command(logpage.ChangedNamespaces, 0, identify.Len), b); err != nil {
		return fmt.Errorf("read the list of changed namespaces: %w", err)
	}
	return nil
}

// fail ends the link for a reason, and returns the reason of the first call.
func (l *link) fail(why error) error {
	l.once.Do(func() {
		l.why = why
		l.c.link.CompareAndSwap(l, nil) // no further commands
		close(l.failed)
		for _, q := range l.queues() {
			_ = q.conn.QP().ToErr() // its commands are flushed
		}
	})
	<-l.failed
	return l.why
}

// close ends the link, with an orderly shutdown of the controller if asked.
func (l *link) close(shutdown bool) (err error) {
	if shutdown {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		down := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration | fabrics.ShutdownNormal)}
		_, _ = l.admin.do(ctx, down.Command(true), nil)
		cancel()
	}
	l.fail(errClosed)
	l.stop()
	l.work.Wait()
	for _, q := range slices.Backward(l.queues()) {
		err = errors.Join(err, q.close())
	}
	err = errors.Join(err, l.forget())
	if l.pd != nil {
		err = errors.Join(err, l.pd.Dealloc())
	}
	return err
}

// errClosed is why links end that the program closes.
var errClosed = errors.New("the host has closed its connection")
