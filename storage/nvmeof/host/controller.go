package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// A Controller is a connection to a subsystem, which is made again after it has ended if
// Config.LossTimeout allows it.
type Controller struct {
	addr   string
	dialer rdmacm.Dialer
	cfg    Config
	link   atomic.Pointer[link] // nil while there is no connection

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	once sync.Once // of Close

	leaving sync.Mutex // held while a link is closed that has memory registered

	mu         sync.Mutex // of all below
	about      identify.Controller
	namespaces []*path
	memory     []*Memory
	current    *link // also before it is used
	fastFailed bool  // commands do not wait for the next connection
	given      error // why there will be no connection any more
	last       error // why there is none at present
	closeErr   error
}

// Dial connects to the subsystem at "host:port": the admin queue, and unless it is the discovery
// service the I/O queues.
func Dial(ctx context.Context, addr string, cfg Config) (*Controller, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := newController(addr, cfg.Dialer, cfg)
	l, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.use(l)
	c.work.Go(func() { c.run(l) })
	return c, nil
}

func newController(addr string, d rdmacm.Dialer, cfg Config) *Controller {
	c := &Controller{addr: addr, dialer: d, cfg: cfg}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// use makes a link the controller's, and gives it commands.
func (c *Controller) use(l *link) {
	c.mu.Lock()
	c.about, c.current, c.fastFailed, c.last = l.about, l, false, nil
	c.mu.Unlock()
	c.link.Store(l)
	select {
	case <-l.failed: // meanwhile
		c.link.CompareAndSwap(l, nil)
	default:
		c.kick()
	}
}

// run keeps the controller connected, from a link on that may be nil, until it is closed or given up.
func (c *Controller) run(l *link) {
	for {
		if l != nil {
			select {
			case <-c.ctx.Done():
				return // Close closes the link
			case <-l.failed:
			}
			c.cfg.Events(Event{Lost, c.addr, l.why})
			c.leave(l)
		}
		var err error
		if l, err = c.reconnect(); err != nil {
			c.mu.Lock()
			c.given = err
			c.mu.Unlock()
			if c.ctx.Err() == nil && c.cfg.LossTimeout != 0 {
				c.cfg.Events(Event{GivenUp, c.addr, err})
			}
			c.kick()
			return
		}
		c.use(l)
		c.cfg.Events(Event{Connected, c.addr, nil})
	}
}

// leave closes a link that has failed.
func (c *Controller) leave(l *link) {
	c.leaving.Lock()
	defer c.leaving.Unlock()
	c.mu.Lock()
	c.current, c.last = nil, l.why
	c.mu.Unlock()
	if err := l.close(false); err != nil && !closing(err) {
		c.mu.Lock()
		c.closeErr = errors.Join(c.closeErr, err)
		c.mu.Unlock()
	}
}

// closing reports whether an error only says that a connection or a device has ended already.
func closing(err error) bool {
	return errors.Is(err, rdmacm.ErrDisconnected) || errors.Is(err, rdmacm.ErrClosed) || errors.Is(err, verbs.ErrClosed)
}

// attemptTime bounds one attempt to connect again.
const attemptTime = 10 * time.Second

// reconnect connects again, as often as the configuration allows. As in Linux it gives up at once if the
// controller says that the host must not repeat the connect command.
func (c *Controller) reconnect() (*link, error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if c.cfg.LossTimeout == 0 {
		return nil, &LostError{Addr: c.addr, Err: last}
	}
	ctx := c.ctx
	if c.cfg.LossTimeout > 0 {
		within, cancel := context.WithTimeout(ctx, c.cfg.LossTimeout)
		defer cancel()
		ctx = within
	}
	if c.cfg.FastFail > 0 {
		defer time.AfterFunc(c.cfg.FastFail, func() {
			c.mu.Lock()
			c.fastFailed = c.current == nil
			c.mu.Unlock()
			c.kick()
		}).Stop()
	}
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, &LostError{Addr: c.addr, After: time.Since(began), Err: last}
		case <-time.After(c.cfg.ReconnectDelay):
		}
		attempt, cancel := context.WithTimeout(ctx, attemptTime)
		l, err := c.connect(attempt)
		if err == nil {
			err = c.prepare(attempt, l)
		}
		cancel()
		if err == nil {
			return l, nil
		}
		last = err
		c.mu.Lock()
		c.last = err
		c.mu.Unlock()
		if ctx.Err() == nil {
			c.cfg.Events(Event{Failed, c.addr, err})
		}
		var refused *status.Error
		if errors.As(err, &refused) && refused.Status&status.DoNotRetry != 0 {
			return nil, &LostError{Addr: c.addr, After: time.Since(began), Err: err}
		}
	}
}

// prepare gives a new link the controller's memory and namespaces. It closes the link after an error.
func (c *Controller) prepare(ctx context.Context, l *link) error {
	c.mu.Lock()
	c.current = l // Alloc registers memory from here on
	var err error
	for _, m := range c.memory {
		err = errors.Join(err, l.register(m))
	}
	if err != nil {
		c.current = nil
	}
	c.mu.Unlock()
	if err != nil {
		return errors.Join(err, l.close(false))
	}
	c.attachAll(ctx, l)
	return nil
}

// attachAll looks at all namespaces that the program uses.
func (c *Controller) attachAll(ctx context.Context, l *link) {
	c.mu.Lock()
	list := append([]*path(nil), c.namespaces...)
	c.mu.Unlock()
	for _, p := range list {
		if err := p.attach(ctx, l); err != nil && !errors.Is(err, errNamespaceClosed) && ctx.Err() == nil {
			c.cfg.Events(Event{Differs, c.addr, err})
		}
	}
	c.kick()
}

// kick starts the commands that wait for a path.
func (c *Controller) kick() {
	c.mu.Lock()
	list := append([]*path(nil), c.namespaces...)
	c.mu.Unlock()
	for _, p := range list {
		p.ns.kick()
	}
}

// hope reports whether commands should wait for the controller's connection, and if not, why there is
// none.
func (c *Controller) hope() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given != nil {
		return false, c.given
	}
	if c.current == nil && c.fastFailed {
		return false, &LostError{Addr: c.addr, After: c.cfg.FastFail, Err: c.last}
	}
	return true, nil
}

func (c *Controller) addMemory(m *Memory) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		if err := c.current.register(m); err != nil {
			return err
		}
	}
	c.memory = append(c.memory, m)
	return nil
}

func (c *Controller) removeMemory(m *Memory) error {
	c.leaving.Lock()
	defer c.leaving.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.memory {
		if c.memory[i] == m {
			c.memory = append(c.memory[:i], c.memory[i+1:]...)
			break
		}
	}
	if c.current == nil {
		return nil
	}
	return c.current.deregister(m)
}

// Addr returns the "host:port" of the controller.
func (c *Controller) Addr() string { return c.addr }

// About returns what the controller says about itself.
func (c *Controller) About() identify.Controller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about
}

// live returns the link, or why there is none.
func (c *Controller) live() (*link, error) {
	if l := c.link.Load(); l != nil {
		return l, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, &LostError{Addr: c.addr, Err: errors.Join(c.given, c.last)}
}

// Admin runs an admin command. Data is sent or filled in; it has at most 128 KiB. The command is not
// repeated if the connection ends.
func (c *Controller) Admin(ctx context.Context, cmd capsule.Command, data []byte) (uint64, error) {
	if len(data) > slotBytes {
		return 0, fmt.Errorf("data of an admin command: expected at most %d bytes, found %d", slotBytes, len(data))
	}
	l, err := c.live()
	if err != nil {
		return 0, err
	}
	return l.admin.do(ctx, cmd, data)
}

// Namespaces returns the identifiers of the active namespaces.
func (c *Controller) Namespaces(ctx context.Context) ([]uint32, error) {
	l, err := c.live()
	if err != nil {
		return nil, err
	}
	b := make([]byte, identify.Len)
	if err := l.identify(ctx, identify.CNSActiveNamespaces, 0, b); err != nil {
		return nil, err
	}
	return identify.ParseNamespaces(b), nil
}

// Namespace returns a namespace of the subsystem, which the host reaches by this controller only.
func (c *Controller) Namespace(ctx context.Context, id uint32) (*Namespace, error) {
	return newNamespace(ctx, []*Controller{c}, id)
}

// Close shuts the controller down and ends its connections. Commands that have not completed fail. A
// second call waits for the first.
func (c *Controller) Close() error {
	c.once.Do(c.shut)
	return c.closeErr
}

func (c *Controller) shut() {
	c.stop()
	c.work.Wait()
	c.mu.Lock()
	l := c.current
	c.given = errors.Join(c.given, errClosed)
	c.mu.Unlock()
	if l != nil {
		c.closeErr = errors.Join(c.closeErr, l.close(true))
	}
	c.kick()
}
