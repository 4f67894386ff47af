package measure

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

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

// A Message is a line of JSON on the control channel between the two ends of a
// measurement. Do is its type; which other fields it has depends on that.
type Message struct {
	Do    string `json:"do,omitempty"`
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"` // exit code of the error

	Version   int              `json:"version,omitempty"`
	Alive     bool             `json:"alive,omitempty"` // in a hello: this end sends keep-alive messages
	Settings  *Settings        `json:"settings,omitempty"`
	Device    string           `json:"device,omitempty"`
	Endpoints []verbs.Endpoint `json:"endpoints,omitempty"`
	Memory    *RemoteMemory    `json:"memory,omitempty"`
	SameHost  verbs.SameHost   `json:"same_host,omitempty"` // how the peer is to open its device
	Path      verbs.Path       `json:"path,omitempty"`      // of this end's queue pairs
	Service   *Service         `json:"service,omitempty"`   // instead of Endpoints

	Operation string      `json:"operation,omitempty"`
	Size      int         `json:"size,omitempty"`
	Count     int64       `json:"count,omitempty"`
	Seed      uint64      `json:"seed,omitempty"`
	Value     uint64      `json:"value,omitempty"`
	SHA256    string      `json:"sha256,omitempty"`
	Address   string      `json:"address,omitempty"`
	CPU       float64     `json:"cpu,omitempty"` // seconds
	Result    *FlowResult `json:"result,omitempty"`
}

// Types of messages.
const (
	DoHello   = "hello"
	DoConnect = "connect"
	DoReady   = "ready"
	DoBegin   = "begin"
	DoLatency = "latency"
	DoDone    = "done"
	DoEnd     = "end"
	DoBye     = "bye"
	doAlive   = "alive"
)

// Each end sends a keep-alive message every keepAliveInterval, and gives up after
// keepAliveLimit intervals without a message from its peer. A stopped program is not
// noticed otherwise: its RDMA adapter and its host's TCP keep answering.
const (
	keepAliveInterval = time.Second
	keepAliveLimit    = 10
)

// RemoteMemory describes memory that the peer may access.
type RemoteMemory struct {
	Addr uint64 `json:"addr"`
	RKey uint32 `json:"rkey"`
}

// maxControlLine limits the length of a line that a peer may send.
const maxControlLine = 4 << 20

// ErrPeerGone says that the control channel ended.
var ErrPeerGone = errors.New("the other end went away")

// A Control is one end of a control channel.
type Control struct {
	mu     sync.Mutex // guards enc
	enc    *json.Encoder
	in     chan *Message
	end    context.CancelCauseFunc
	missed atomic.Int32 // keep-alive intervals since the peer's last message
}

// NewControl starts reading messages from r. When r ends or sends something else, the
// returned context ends with the reason as its cause, so that an end that waits for
// completions also notices that its peer has gone.
func NewControl(ctx context.Context, r io.Reader, w io.Writer) (*Control, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Control{enc: json.NewEncoder(w), in: make(chan *Message, 4), end: cancel}
	go func() { cancel(c.read(ctx, r)) }()
	return c, ctx, func() { cancel(context.Canceled) }
}

func (c *Control) read(ctx context.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxControlLine)
	for lines.Scan() {
		m := new(Message)
		if err := json.Unmarshal(lines.Bytes(), m); err != nil {
			return cli.PeerErrorf("control channel: expected a message of softrdma, found %.40q", lines.Text())
		}
		if m.Error != "" {
			// A peer that failed ends the measurement at both ends.
			return cli.WithCode(max(m.Code, cli.ExitFailed), fmt.Errorf("the other end: %s", m.Error))
		}
		c.missed.Store(0)
		if m.Do == doAlive {
			continue
		}
		select {
		case c.in <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
		if m.Do == DoBye {
			return cli.PeerErrorf("%w", ErrPeerGone)
		}
	}
	if err := lines.Err(); err != nil {
		return cli.PeerErrorf("%w: %w", ErrPeerGone, err)
	}
	return cli.PeerErrorf("%w", ErrPeerGone)
}

// KeepAlive sends keep-alive messages until ctx ends, and ends the control channel when
// the peer is silent. Both ends must run it. It counts ticks, not time, because a
// process that was itself stopped has missed ticks as well.
func (c *Control) KeepAlive(ctx context.Context) {
	c.missed.Store(0)
	go func() {
		tick := time.NewTicker(keepAliveInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if c.missed.Add(1) > keepAliveLimit {
				c.end(cli.PeerErrorf("no message from the other end for %v: its process is suspended, or its host is down", keepAliveLimit*keepAliveInterval))
				return
			}
			if c.Send(&Message{Do: doAlive}) != nil {
				return // the reader reports the cause
			}
		}
	}()
}

// CheckEndpoints checks that a message describes n queue pairs and a memory region.
func (m *Message) CheckEndpoints(n int) error {
	if len(m.Endpoints) != n || m.Memory == nil {
		return cli.PeerErrorf("control channel: expected %d endpoints and a memory region, found %d endpoints", n, len(m.Endpoints))
	}
	return nil
}

// Send sends a message.
func (c *Control) Send(m *Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enc.Encode(m); err != nil {
		return cli.PeerErrorf("%w: %w", ErrPeerGone, err)
	}
	return nil
}

// Fail tells the peer why this end stops.
func (c *Control) Fail(err error) {
	c.Send(&Message{Error: cli.Line(err), Code: cli.ExitCode(err)})
}

// Pending returns the number of messages that the peer has sent and Next has not
// returned.
func (c *Control) Pending() int { return len(c.in) }

// Next returns the peer's next message.
func (c *Control) Next(ctx context.Context) (*Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	default:
	}
	select {
	case m := <-c.in:
		return m, nil
	case <-ctx.Done():
		// Messages that arrived before the end count.
		select {
		case m := <-c.in:
			return m, nil
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// Expect returns the peer's next message, which must have the given type.
func (c *Control) Expect(ctx context.Context, what string) (*Message, error) {
	m, err := c.Next(ctx)
	if err == nil && m.Do != what {
		return nil, cli.PeerErrorf("control channel: expected %q, found %q", what, m.Do)
	}
	return m, err
}

// Ask sends a message and returns the answer, which must have the given type.
func (c *Control) Ask(ctx context.Context, m *Message, what string) (*Message, error) {
	if err := c.Send(m); err != nil {
		// The peer may have sent the reason before it closed the channel.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return c.Expect(ctx, what)
}
