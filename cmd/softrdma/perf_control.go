package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/verbs"
)

// A controlMessage is a line of JSON between the two ends of a measurement, out
// of band of what they measure. Do says what it is; the other fields belong to
// some of them.
type controlMessage struct {
	Do    string `json:"do,omitempty"`
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"` // exit code of the error

	Version   int              `json:"version,omitempty"`
	Alive     bool             `json:"alive,omitempty"` // of a hello: this end says every second that it is there
	Settings  *perfSettings    `json:"settings,omitempty"`
	Device    string           `json:"device,omitempty"`
	Endpoints []verbs.Endpoint `json:"endpoints,omitempty"`
	Memory    *remoteMemory    `json:"memory,omitempty"`
	Service   *perfService     `json:"service,omitempty"` // in place of Endpoints

	Operation string      `json:"operation,omitempty"`
	Size      int         `json:"size,omitempty"`
	Count     int64       `json:"count,omitempty"`
	Seed      uint64      `json:"seed,omitempty"`
	Value     uint64      `json:"value,omitempty"`
	SHA256    string      `json:"sha256,omitempty"`
	Address   string      `json:"address,omitempty"`
	CPU       float64     `json:"cpu,omitempty"` // seconds
	Result    *flowResult `json:"result,omitempty"`
}

// What a controlMessage is.
const (
	doHello   = "hello"
	doConnect = "connect"
	doReady   = "ready"
	doBegin   = "begin"
	doLatency = "latency"
	doDone    = "done"
	doEnd     = "end"
	doBye     = "bye"
	doAlive   = "alive"
)

// Each end sends a keep-alive message every aliveEvery, and gives up after aliveLimit
// intervals without one from its peer. The device of a stopped program may keep
// answering, as adapters do, and so does its host's TCP.
const (
	aliveEvery = time.Second
	aliveLimit = 10
)

// remoteMemory is what a peer must know to reach this end's memory.
type remoteMemory struct {
	Addr uint64 `json:"addr"`
	RKey uint32 `json:"rkey"`
}

// maxControlLine bounds a line that a peer may send.
const maxControlLine = 4 << 20

// errPeerGone is what a control channel that ends leaves behind.
var errPeerGone = errors.New("the other end went away")

// A control is one end's control channel.
type control struct {
	mu     sync.Mutex // of enc
	enc    *json.Encoder
	in     chan *controlMessage
	end    context.CancelCauseFunc
	silent atomic.Int32 // aliveEvery since the peer's last message
}

// newControl starts reading messages from r. When r ends, or what it brings is
// no message, the returned context ends with the reason as its cause: the
// peer's death is noticed also by those who wait for something else.
func newControl(ctx context.Context, r io.Reader, w io.Writer) (*control, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &control{enc: json.NewEncoder(w), in: make(chan *controlMessage, 4), end: cancel}
	go func() { cancel(c.read(ctx, r)) }()
	return c, ctx, func() { cancel(context.Canceled) }
}

func (c *control) read(ctx context.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxControlLine)
	for lines.Scan() {
		m := new(controlMessage)
		if err := json.Unmarshal(lines.Bytes(), m); err != nil {
			return peerErrorf("control channel: expected a message of softrdma, found %.40q", lines.Text())
		}
		if m.Error != "" {
			// A failed peer ends the measurement, whatever this end is doing.
			return &exitError{max(m.Code, exitFailed), fmt.Errorf("the other end: %s", m.Error)}
		}
		if c.silent.Store(0); m.Do == doAlive {
			continue
		}
		select {
		case c.in <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
		if m.Do == doBye {
			return peerErrorf("%w", errPeerGone)
		}
	}
	if err := lines.Err(); err != nil {
		return peerErrorf("%w: %w", errPeerGone, err)
	}
	return peerErrorf("%w", errPeerGone)
}

// keepAlive sends keep-alive messages until ctx ends. When the peer is silent it ends
// the control connection. Both ends must run it. It counts ticks, not time, because a
// process that was itself stopped has missed ticks as well.
func (c *control) keepAlive(ctx context.Context) {
	c.silent.Store(0)
	go func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if c.silent.Add(1) > aliveLimit {
				c.end(peerErrorf("the other end has said nothing for %v: its process is stopped, or its host is gone", aliveLimit*aliveEvery))
				return
			}
			if c.send(&controlMessage{Do: doAlive}) != nil {
				return // the reader reports the cause
			}
		}
	}()
}

// send sends a message.
func (c *control) send(m *controlMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enc.Encode(m); err != nil {
		return peerErrorf("%w: %w", errPeerGone, err)
	}
	return nil
}

// fail tells the peer why this end stops.
func (c *control) fail(err error) {
	c.send(&controlMessage{Error: oneLine(err), Code: exitCode(err)})
}

// next takes the peer's next message.
func (c *control) next(ctx context.Context) (*controlMessage, error) {
	select {
	case m := <-c.in:
		return m, nil
	default:
	}
	select {
	case m := <-c.in:
		return m, nil
	case <-ctx.Done():
		// What the peer said before it went counts.
		select {
		case m := <-c.in:
			return m, nil
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// expect takes the peer's next message, which must be what.
func (c *control) expect(ctx context.Context, what string) (*controlMessage, error) {
	m, err := c.next(ctx)
	if err == nil && m.Do != what {
		return nil, peerErrorf("control channel: expected %q, found %q", what, m.Do)
	}
	return m, err
}

// ask sends a message and takes the answer, which must be what.
func (c *control) ask(ctx context.Context, m *controlMessage, what string) (*controlMessage, error) {
	if err := c.send(m); err != nil {
		// The peer's own words, where it left some, tell more.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return c.expect(ctx, what)
}
