package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
)

const (
	nqn  = "nqn.2024-01.org.example:disk"
	size = 1 << 20
)

// A disk is a backend whose accesses a test can hold or let fail.
type disk struct {
	*block.Memory

	mu     sync.Mutex
	before func(write bool) error // nil: accesses succeed at once
	count  int                    // accesses
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	m, err := block.NewMemory(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	return &disk{Memory: m}
}

func (d *disk) set(before func(write bool) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

func (d *disk) enter(write bool) error {
	d.mu.Lock()
	d.count++
	f := d.before
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(write)
}

func (d *disk) accesses() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

func (d *disk) ReadAt(b []byte, off int64) (int, error) {
	if err := d.enter(false); err != nil {
		return 0, err
	}
	return d.Memory.ReadAt(b, off)
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	if err := d.enter(true); err != nil {
		return 0, err
	}
	return d.Memory.WriteAt(b, off)
}

// Blocks implements block.Backend.
func (d *disk) Blocks() bool { return true }

// A rig is a simulated network with the device of a host.
type rig struct {
	t    *testing.T
	w    *bubble.World
	host *bubble.Host
	ends int

	mu     sync.Mutex
	events []host.Event
}

// An end is a target at an address of the network.
type end struct {
	r      *rig
	net    *bubble.Host
	addr   string
	target *target.Target
	sub    *controller.Subsystem
}

func simulate(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, w: bubble.New(1, simnet.LinkConfig{})}
		t.Cleanup(r.w.End)
		r.host = r.open()
		test(r)
	})
}

func (r *rig) open() *bubble.Host {
	r.t.Helper()
	r.ends++
	h, err := r.w.Open(fmt.Sprintf("127.0.0.%d", r.ends))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { h.Device.Close() })
	return h
}

// serve opens a target at a new address, whose namespace 1 is a backend.
func (r *rig) serve(b block.Backend) *end {
	r.t.Helper()
	e := &end{r: r, net: r.open()}
	e.addr = fmt.Sprintf("127.0.0.%d:4420", r.ends)
	e.start(nqn, b)
	r.t.Cleanup(func() { e.stop() })
	return e
}

// start starts the target, whose namespace gets its identifiers from a name.
func (e *end) start(name string, b block.Backend) {
	t := e.r.t
	t.Helper()
	var err error
	if e.target, err = target.New(target.Config{}); err != nil {
		t.Fatal(err)
	}
	e.sub = &controller.Subsystem{NQN: name}
	if err := e.target.AddSubsystem(e.sub); err != nil {
		t.Fatal(err)
	}
	if err := e.target.AddNamespace(e.sub, 1, b, false); err != nil {
		t.Fatal(err)
	}
	if _, err := e.target.Listen(e.addr, rdmacm.ListenConfig{Device: e.net.Device}); err != nil {
		t.Fatal(err)
	}
}

func (e *end) stop() {
	e.r.t.Helper()
	if err := e.target.Close(); err != nil {
		e.r.t.Error(err)
	}
}

// connect connects to ends, and returns namespace 1.
func (r *rig) connect(cfg host.Config, ends ...*end) (*host.Subsystem, *host.Namespace) {
	r.t.Helper()
	cfg.Dialer = rdmacm.Dialer{Device: r.host.Device}
	if cfg.Subsystem == "" {
		cfg.Subsystem = nqn
	}
	cfg.Events = func(e host.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	var paths []host.Path
	for _, e := range ends {
		paths = append(paths, host.Path{Addr: e.addr})
	}
	s, err := host.Connect(r.t.Context(), cfg, paths...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	})
	n, err := s.Namespace(r.t.Context(), 1)
	if err != nil {
		r.t.Fatal(err)
	}
	return s, n
}

// happened reports how many events of a kind there were.
func (r *rig) happened(kind host.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// A load writes and reads blocks in several goroutines, and checks what it reads.
type load struct {
	work  sync.WaitGroup
	stop  context.CancelFunc
	mu    sync.Mutex
	count int
	err   error
}

const loaders = 8

// load begins a load, of one access of each goroutine per interval. Half of the goroutines use registered memory.
func (r *rig) load(n *host.Namespace, interval time.Duration) *load {
	ctx, stop := context.WithCancel(r.t.Context())
	l := &load{stop: stop}
	for i := range loaders {
		l.work.Go(func() {
			if err := l.run(ctx, n, i, interval); err != nil {
				l.mu.Lock()
				l.err = errors.Join(l.err, err)
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) run(ctx context.Context, n *host.Namespace, number int, interval time.Duration) (err error) {
	const part, block = size / loaders, 4096
	random := rand.New(rand.NewPCG(1, uint64(number)))
	b := make([]byte, block)
	if number%2 == 0 {
		m, err := n.Alloc(block)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Free()) }()
		b = m.Bytes()
	}
	want := make([]byte, part)
	for ctx.Err() == nil {
		off := random.IntN(part/block) * block
		here, at := want[off:off+block], int64(number*part+off)
		if random.IntN(2) == 0 {
			for i := range here {
				here[i] = byte(random.Uint32())
			}
			copy(b, here)
			if _, err := n.WriteAt(b, at); err != nil {
				return err
			}
		} else if _, err := n.ReadAt(b, at); err != nil {
			return err
		} else if !bytes.Equal(b, here) {
			return fmt.Errorf("wrong data at %d", at)
		}
		l.mu.Lock()
		l.count++
		l.mu.Unlock()
		time.Sleep(interval)
	}
	return nil
}

// end ends the load, and returns how many accesses have succeeded.
func (l *load) end(t *testing.T) int {
	t.Helper()
	l.stop()
	l.work.Wait()
	if l.err != nil {
		t.Error(l.err)
	}
	return l.count
}

func newSmall() (block.Backend, error) { return block.NewMemory(size/2, 512) }
