package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
)

// DefaultNQN is the qualified name of a host that has no other.
const DefaultNQN = "nqn.2014-08.org.nvmexpress:uuid:736f6674-7264-6d61-8000-000000000001"

// A Config says how Dial connects to a controller.
type Config struct {
	Subsystem string   // qualified name; empty means the discovery service
	Host      string   // qualified name; empty means DefaultNQN
	HostID    [16]byte // zero: derived from DefaultNQN

	Queues    int           // I/O queues; 0 means 1
	QueueSize int           // entries of a queue, 2 to 128; 0 means 32
	KeepAlive time.Duration // 0 means 5 s, a negative value none

	// Secrets authenticate the host, and the controller if its secret is there, on each queue.
	Secrets auth.Secrets

	Dialer rdmacm.Dialer // of all queues
}

var defaultHostID = [16]byte{0x73, 0x6f, 0x66, 0x74, 0x72, 0x64, 0x6d, 0x61, 0x80, 15: 1}

// A Controller is a connection to a subsystem.
type Controller struct {
	addr  string
	cfg   Config
	id    uint16
	admin *queue
	io    []*queue
	next  atomic.Uint32
	about identify.Controller

	stop context.CancelFunc
	work sync.WaitGroup
}

// Dial connects to the subsystem at "host:port": the admin queue, and unless it is the discovery
// service the I/O queues.
func Dial(ctx context.Context, addr string, cfg Config) (_ *Controller, err error) {
	if cfg.Subsystem == "" {
		cfg.Subsystem = logpage.DiscoveryNQN
	}
	if cfg.Host == "" {
		cfg.Host = DefaultNQN
	}
	if cfg.HostID == [16]byte{} {
		cfg.HostID = defaultHostID
	}
	if cfg.QueueSize == 0 {
		cfg.QueueSize = 32
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 5 * time.Second
	}
	if cfg.QueueSize < 2 || cfg.QueueSize > 128 {
		return nil, fmt.Errorf("queue size: expected 2 to 128 entries, found %d", cfg.QueueSize)
	}
	c := &Controller{addr: addr, cfg: cfg}
	background, stop := context.WithCancel(context.Background())
	c.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.connectAdmin(ctx); err != nil {
		return nil, err
	}
	if cfg.KeepAlive > 0 {
		c.work.Go(func() { c.keepAlive(background) })
	}
	if cfg.Subsystem == logpage.DiscoveryNQN {
		return c, nil
	}
	return c, c.connectIO(ctx)
}

// adminEntries is the size of the admin queue.
const adminEntries = 32

// connectAdmin connects the admin queue and enables the controller.
func (c *Controller) connectAdmin(ctx context.Context) (err error) {
	if c.admin, err = dialQueue(ctx, c.addr, c.cfg.Dialer, 0, adminEntries); err != nil {
		return err
	}
	ms := max(0, c.cfg.KeepAlive/time.Millisecond)
	id, err := c.connect(ctx, c.admin, fabrics.Connect{QueueSize: adminEntries - 1, KeepAlive: uint32(ms)}, fabrics.AnyController)
	if err != nil {
		return err
	}
	c.id = uint16(id)
	enable := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}
	if _, err := c.admin.do(ctx, enable.Command(true), nil); err != nil {
		return fmt.Errorf("enable the controller: %w", err)
	}
	status, err := c.admin.do(ctx, fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
	for err == nil && status&(fabrics.StatusReady|fabrics.StatusFatal) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		status, err = c.admin.do(ctx, fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
	}
	if err == nil && status&fabrics.StatusFatal != 0 {
		err = fmt.Errorf("the controller failed when it was enabled: status %#x", status)
	}
	if err != nil {
		return err
	}
	b := make([]byte, identify.Len)
	if err := c.identify(ctx, identify.CNSController, 0, b); err != nil {
		return err
	}
	c.about, err = identify.ParseController(b)
	return err
}

// connect sends the connect command of a queue.
func (c *Controller) connect(ctx context.Context, q *queue, k fabrics.Connect, id uint16) (uint64, error) {
	d := fabrics.ConnectData{HostID: c.cfg.HostID, Controller: id, Subsystem: c.cfg.Subsystem, Host: c.cfg.Host}
	result, err := q.do(ctx, k.Command(), d.Append(nil))
	if err != nil {
		return 0, fmt.Errorf("connect queue %d to %s: %w", k.Queue, c.cfg.Subsystem, err)
	}
	return result, q.authenticate(ctx, &c.cfg, result)
}

// connectIO connects the I/O queues, as many as the controller allows.
func (c *Controller) connectIO(ctx context.Context) error {
	n := max(c.cfg.Queues, 1)
	allowed, err := c.admin.do(ctx, capsule.Command{
		Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureQueues), CDW11: uint32(n-1)<<16 | uint32(n-1),
	}, nil)
	if err != nil {
		return fmt.Errorf("ask for queues: %w", err)
	}
	n = min(n, int(allowed&0xffff)+1, int(allowed>>16&0xffff)+1)
	entries := min(c.cfg.QueueSize, max(2, int(c.about.MaxCommands)))
	for number := uint16(1); int(number) <= n; number++ {
		q, err := dialQueue(ctx, c.addr, c.cfg.Dialer, number, entries)
		if err != nil {
			return err
		}
		c.io = append(c.io, q)
		if _, err := c.connect(ctx, q, fabrics.Connect{Queue: number, QueueSize: uint16(entries - 1)}, c.id); err != nil {
			return err
		}
		if c.about.SGLs&identify.SGLOffsetSupported != 0 && c.about.CapsuleOffset == 0 {
			q.capsule = max(0, int(c.about.CommandCapsule)*16-capsule.CommandLen)
		}
	}
	return nil
}

// keepAlive sends keep-alive commands until ctx ends.
func (c *Controller) keepAlive(ctx context.Context) {
	tick := time.NewTicker(c.cfg.KeepAlive / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := c.admin.do(ctx, capsule.Command{Opcode: capsule.AdminKeepAlive}, nil); err != nil {
				return
			}
		}
	}
}

// About returns what the controller says about itself.
func (c *Controller) About() identify.Controller { return c.about }

// Admin runs an admin command. Data is sent or filled in; it has at most 128 KiB.
func (c *Controller) Admin(ctx context.Context, cmd capsule.Command, data []byte) (uint64, error) {
	if len(data) > slotBytes {
		return 0, fmt.Errorf("data of an admin command: expected at most %d bytes, found %d", slotBytes, len(data))
	}
	return c.admin.do(ctx, cmd, data)
}

func (c *Controller) identify(ctx context.Context, cns identify.CNS, nsid uint32, b []byte) error {
	_, err := c.admin.do(ctx, capsule.Command{Opcode: capsule.AdminIdentify, NSID: nsid, CDW10: uint32(cns)}, b)
	if err != nil {
		return fmt.Errorf("identify (CNS %#02x): %w", uint8(cns), err)
	}
	return nil
}

// Namespaces returns the identifiers of the active namespaces.
func (c *Controller) Namespaces(ctx context.Context) ([]uint32, error) {
	b := make([]byte, identify.Len)
	if err := c.identify(ctx, identify.CNSActiveNamespaces, 0, b); err != nil {
		return nil, err
	}
	return identify.ParseNamespaces(b), nil
}

// Close shuts the controller down and ends its connections.
func (c *Controller) Close() (err error) {
	c.stop()
	c.work.Wait()
	for _, q := range c.io {
		err = errors.Join(err, q.close())
	}
	if c.admin != nil {
		if c.about.Version != 0 { // it was enabled
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			down := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration | fabrics.ShutdownNormal)}
			_, _ = c.admin.do(ctx, down.Command(true), nil)
			cancel()
		}
		err = errors.Join(err, c.admin.close())
	}
	return err
}

// Discover returns the entries of the discovery log of a target.
func Discover(ctx context.Context, addr string, cfg Config) (list []logpage.DiscoveryEntry, err error) {
	cfg.Subsystem, cfg.KeepAlive = logpage.DiscoveryNQN, -1
	c, err := Dial(ctx, addr, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	b := make([]byte, logpage.DiscoveryHeadLen)
	for range 5 { // the log may change in between
		if _, err := c.Admin(ctx, logpage.Command(logpage.Discovery, 0, logpage.DiscoveryHeadLen), b); err != nil {
			return nil, err
		}
		head, err := logpage.ParseDiscoveryHead(b)
		if err != nil {
			return nil, err
		}
		n := min(head.Entries, (slotBytes-logpage.DiscoveryHeadLen)/logpage.DiscoveryEntryLen)
		all := make([]byte, logpage.DiscoveryHeadLen+n*logpage.DiscoveryEntryLen)
		if _, err := c.Admin(ctx, logpage.Command(logpage.Discovery, 0, uint32(len(all))), all); err != nil {
			return nil, err
		}
		if again, err := logpage.ParseDiscoveryHead(all); err != nil || again != head {
			continue
		}
		for rest := all[logpage.DiscoveryHeadLen:]; len(rest) > 0; rest = rest[logpage.DiscoveryEntryLen:] {
			e, err := logpage.ParseDiscoveryEntry(rest)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	}
	return nil, errors.New("the discovery log changes all the time")
}
