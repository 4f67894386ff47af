package msg

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/message"
	"softrdma/msg/internal/access"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/ring"
	"softrdma/msg/internal/wakeup"
	"softrdma/verbs"
)

// A Progress is who processes completions and timers of a worker: the package or the program.
type Progress uint8

const (
	// ProgressPackage lets a goroutine of the worker make progress while no call waits. It sleeps
	// while nothing happens.
	ProgressPackage Progress = iota
	// ProgressCaller leaves progress to the program: to Worker.Progress and to Wait and Poll of
	// requests. This is the fastest. A worker whose program makes no progress receives nothing.
	ProgressCaller
)

// Limits of a Config. A test says that those of addresses are the same.
const (
	MaxEager      = 1 << 20 // bytes
	MaxUnexpected = 1 << 10 // messages
	MaxStream     = 1 << 30 // bytes
)

// A Config says what a worker is made of. The zero value is right for most programs. For each
// connection a worker registers memory for Unexpected + Active + 32 frames of Eager bytes to
// receive, and for 64 frames of the peer's Eager bytes to send, and for 8 frames, but at least 64 KiB,
// if the peer is on the same host. Frames have room for at least MaxHeader bytes.
type Config struct {
	// Eager is the length in bytes up to which a message's bytes are copied and sent at once, at
	// most MaxEager; 0 means 8 KiB. The receiver reads longer messages from the sender's memory.
	Eager int

	// Unexpected is how many eager messages of each peer the worker keeps until a receive matches
	// them, at most MaxUnexpected; 0 means 64. More messages stay in the sender's memory.
	Unexpected int

	// Announced is how many messages that stay in the sender's memory a peer may announce, at
	// most MaxUnexpected; 0 means MaxUnexpected. Further sends to the worker wait.
	Announced int

	// Active is how many active messages of each peer the worker holds, at most MaxUnexpected; 0
	// means 64. Further sends to the worker wait until handlers have returned, or messages that they
	// kept are released.
	Active int

	// Stream is how many bytes of each peer's stream the worker keeps until they are received, at most
	// MaxStream; 0 means 128 KiB. Further bytes wait in the sender's memory.
	Stream int

	// Cache is how many bytes of the program's memory stay registered after requests that used
	// them, so that requests that use them again are faster; 0 means 16 MiB, and a negative value
	// none. The garbage collector does not free them meanwhile.
	Cache int

	// Rendezvous is how the bytes of messages that stay in the sender's memory get here.
	Rendezvous Rendezvous

	// Rails are further devices of the worker, at most 3. An endpoint connects on each that it shares
	// with the other worker, and continues while one works. The caller closes them after the worker.
	Rails []*verbs.Device

	// PeerTimeout is how long a peer may be silent before it counts as failed; 0 means 10 s.
	PeerTimeout time.Duration

	// Progress is who processes completions and timers of the worker.
	Progress Progress

	// Refused, if not nil, is called with the reason for each connection request that the worker
	// refuses. It matches ErrAddress, ErrVersion or ErrStale if the request is at fault.
	Refused func(from netip.AddrPort, err error)

	// Unhandled, if not nil, is called for each active message that has no handler, like a handler.
	Unhandled func(from *Endpoint, id uint16)

	// Failed, if not nil, is called once for each connection that ends without a Close of this
	// worker or its endpoint, like a handler. The error is that of Endpoint.Err.
	Failed func(e *Endpoint, err error)
}

// complete checks the limits and sets the defaults.
func (c *Config) complete() error {
	if c.Cache == 0 {
		c.Cache = 16 << 20
	}
	if c.PeerTimeout == 0 {
		c.PeerTimeout = 10 * time.Second
	}
	if c.PeerTimeout < 0 {
		return fmt.Errorf("msg: PeerTimeout is %v, expected a positive duration", c.PeerTimeout)
	}
	if c.Rendezvous > RendezvousPut {
		return fmt.Errorf("msg: Rendezvous is %d, expected at most %d", c.Rendezvous, RendezvousPut)
	}
	for _, f := range []struct {
		name      string
		v         *int
		most, def int
	}{
		{"Eager", &c.Eager, MaxEager, 8 << 10}, {"Unexpected", &c.Unexpected, MaxUnexpected, 64}, {"Announced", &c.Announced, MaxUnexpected, MaxUnexpected},
		{"Active", &c.Active, MaxUnexpected, 64}, {"Stream", &c.Stream, MaxStream, 128 << 10},
	} {
		if *f.v < 0 || *f.v > f.most {
			return fmt.Errorf("msg: %s is %d, expected 0 to %d", f.name, *f.v, f.most)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	return nil
}

// A Worker receives messages, and sends them through its endpoints.
type Worker struct {
	*rail     // the first device
	rails     []*rail
	config    Config
	address   format.Address
	listeners map[*Listener]bool // that Listen made
	context   context.Context    // until Close
	stop      context.CancelFunc
	running   sync.WaitGroup
	wake      chan struct{} // for wait

	e        *carrier.Engine // its lock guards what follows
	domain   *carrier.Domain
	machine  *message.Worker
	conns    []*connection
	rings    []*connection // whose peers send through shared memory
	ringed   int           // connections that have memory of rings
	turns    ring.Turns
	exposed  int // pieces of memory that peers read or write for messages
	groups   map[format.Token]*group
	spare    []*Request
	regions  []*Region
	peers    []*message.Peer // for Readable
	calls    []call          // functions to call without the lock
	called   []call          // the memory of earlier calls
	calling  bool            // a goroutine makes calls
	handlers []Handler       // by ID
	unknown  uint64          // active messages without a handler
	pollers  int             // goroutines that poll in wait
	sleepers int             // goroutines that sleep in wait
	alarm    *wakeup.Alarm   // for the program
	closed   bool

	accesses access.Pool
}

// NewWorker makes a worker on a device. The caller closes the worker before the device. The
// errors are those of verbs and rdmacm, or name the field of c that is out of range.
func NewWorker(dev *verbs.Device, c Config) (*Worker, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	w := &Worker{config: c, groups: map[format.Token]*group{}, listeners: map[*Listener]bool{},
		alarm: wakeup.New(), wake: make(chan struct{}, 1), accesses: access.Pool{Ended: accessed}}
	accepts := message.Config{Eager: c.Eager, Credits: c.Unexpected, Announced: c.Announced, Active: c.Active, Stream: c.Stream, Put: c.Rendezvous.put(dev), Progress: c.Progress == ProgressPackage}
	w.machine = message.New(env{w}, accepts)
	if err := w.newRails(dev); err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	w.address = format.Address{Hello: format.Hello{Worker: binary.BigEndian.Uint64(id[:]), Accepts: accepts}}
	for _, r := range w.rails {
		w.address.Rails = append(w.address.Rails, r.address())
	}
	w.context, w.stop = context.WithCancel(context.Background())
	for _, r := range w.rails {
		w.running.Go(func() { w.accept(r) })
	}
	return w, nil
}

// Address returns the bytes by which other workers connect to this one. They are valid until
// Close.
func (w *Worker) Address() []byte { return w.address.Bytes() }

// Device returns the device that the worker was made with, the first of its rails.
func (w *Worker) Device() *verbs.Device { return w.on.Dev }

// Receive receives the oldest message whose tag equals tag in the bits of mask, or the next such
// message that arrives. The program must not use buf until the request has ended.
func (w *Worker) Receive(buf Buffers, tag, mask uint64) *Request {
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.receive.Buffer, r.receive.Length = r.pieces(buf)
	r.receiving = true
	r.receive.Tag, r.receive.Mask, r.receive.Context = tag, mask, r
	if w.closed {
		r.end(Info{}, ErrClosed)
		return r
	}
	w.machine.Receive(&r.receive)
	w.e.Flush()
	return r
}

// ReceiveMessage receives a message that Claim took. A message can be received once: a second
// request ends with ErrReceived.
func (w *Worker) ReceiveMessage(buf Buffers, m *Message) *Request {
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	r.receive.Buffer, r.receive.Length = r.pieces(buf)
	r.receive.Tag, r.receive.Mask, r.receive.Context = m.Tag, All, r
	switch {
	case w.closed:
		r.end(Info{}, ErrClosed)
	case m.m == nil:
		r.end(Info{}, ErrReceived)
	default:
		w.machine.ReceiveMessage(&r.receive, m.m)
		m.m = nil
		w.e.Flush()
	}
	return r
}

// Probe describes the message that a receive would get at once, and reports whether there is
// one. The message stays where it is.
func (w *Worker) Probe(tag, mask uint64) (Info, bool) {
	w.e.Lock()
	defer w.unlock()
	w.progress()
	i, ok := w.machine.Probe(tag, mask)
	return Info{i.Tag, i.Length}, ok
}

// Claim takes the message that a receive would get at once, for ReceiveMessage, so that no other
// receive gets it. It returns nil if there is none. A claimed message counts against the peer's
// limits until it is received.
func (w *Worker) Claim(tag, mask uint64) *Message {
	w.e.Lock()
	defer w.unlock()
	w.progress()
	m := w.machine.Claim(tag, mask)
	if m == nil {
		return nil
	}
	return &Message{Info{m.Info.Tag, m.Info.Length}, m}
}

// Close ends all connections and requests of the worker, with errors that match ErrClosed. Messages
// that a peer has not received may be lost; see Endpoint.Close. A second Close returns ErrClosed.
func (w *Worker) Close() error {
	w.e.Lock()
	if w.closed {
		w.unlock()
		return ErrClosed
	}
	w.closed = true
	w.failAll(ErrClosed)
	w.machine.CancelAll(ErrClosed)
	listeners := slices.Collect(maps.Keys(w.listeners))
	w.signal()
	w.unlock()
	w.stop()
	var err error
	for _, r := range w.rails {
		if e := r.listener.Close(); err == nil && !r.on.Gone.Load() {
			err = e
		}
	}
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	w.running.Wait()
	err = errors.Join(err, w.e.Close())
	w.alarm.Close()
	w.e.Lock()
	for _, r := range w.rails {
		r.cache.Clear()
	}
	w.e.Unlock()
	err = errors.Join(err, w.unmapAll())
	w.domain.Release()
	return err
}
