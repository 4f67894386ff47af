package compare

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"softrdma/bench/loop"
)

// MessagesName is the name of Messages.
const MessagesName = "msg"

// Messages measures package msg: tagged messages between two processes that poll.
type Messages struct {
	Path string // of this program
}

// A MessagesConfig configures one end of a loop over package msg. Encoded as JSON it is the
// argument of `bench messages`. The server prints "ready" and its worker's address.
type MessagesConfig struct {
	Device   string    `json:"device"`
	SameHost string    `json:"same_host"` // value of --same-host
	Peer     string    `json:"peer"`      // the server's worker, in hexadecimal digits; empty at the server
	Kind     loop.Kind `json:"kind"`      // loop.Ping or loop.Stream
	Bytes    int       `json:"bytes"`     // of a message
	Seconds  float64   `json:"seconds"`

	// Active sends active messages instead of tagged ones. Kind is loop.Ping.
	Active bool `json:"active"`

	// Allocated takes the buffers of a stream from Worker.Allocate; otherwise they are Go memory.
	Allocated bool `json:"allocated"`
}

// Name returns MessagesName.
func (Messages) Name() string { return MessagesName }

// Check returns nil: package msg is always available.
func (Messages) Check() error { return nil }

// Run implements Tool.
func (t Messages) Run(ctx context.Context, p *Path, w Work, d time.Duration) (r Result, err error) {
	c := MessagesConfig{Device: p.device(client), SameHost: p.sameHostMode(), Kind: w.Kind, Bytes: w.Bytes, Seconds: d.Seconds(), Active: w.Op == activeMessage, Allocated: w.Op == tagAllocated}
	s := c
	s.Device = p.device(server)
	serve, err := s.args(t.Path)
	if err != nil {
		return r, err
	}
	running, said, err := p.startServer(ctx, "ready", serve...)
	if err != nil {
		return r, err
	}
	defer running.stop()
	fields := strings.Fields(said)
	c.Peer = fields[len(fields)-1]
	ask, err := c.args(t.Path)
	if err != nil {
		return r, err
	}
	err = p.runClientJSON(ctx, &r, ask...)
	return r, err
}

func (c *MessagesConfig) args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "messages", string(text)}, err
}

// The operations beside tagged messages in Go memory.
const (
	activeMessage = "active message"
	tagAllocated  = "tag allocated" // in memory of Worker.Allocate
)

// messageFigures returns the figures of package msg on a path, compared with UCX's tags and with
// softrdma's own operations.
func messageFigures(host bool) []Figure {
	tag := func(kind Kind, bytes int, m Metric) Measure {
		return Measure{Work{Tool: MessagesName, Kind: kind, Op: "tag", Bytes: bytes}, m}
	}
	against := func(tool, op string, of Measure) Measure {
		w := of.Work
		w.Tool, w.Op = tool, op
		return Measure{w, of.Metric}
	}
	lat, rate, bw := tag(Ping, word, P50), tag(Stream, word, Rate), tag(Stream, mib, Throughput)
	shared := []Figure{
		{"msg: 8 B tag latency, of UCX over TCP, tag_lat", lat, against("UCX-TCP", "tag_lat", lat), true, .25, .12},
		{"msg: 8 B tag rate, of UCX over TCP, tag_bw", rate, against("UCX-TCP", "tag_bw", rate), false, 8, 20},
	}
	active := lat
	active.Work.Op = activeMessage
	shared = append(shared, Figure{"msg: 8 B active message latency, of tag", active, lat, true, 1, .8})
	if host {
		allocated := bw
		allocated.Work.Op = tagAllocated
		return slices.Concat(shared, collectiveFigures(), callFigures(), []Figure{
			{"msg: 8 B tag latency, of UCX over posix,cma, tag_lat", lat, against("UCX-shared", "tag_lat", lat), true, 5, 2.5},
			{"msg: 1 MiB tag bandwidth, Go memory, of UCX over posix,cma, tag_bw", bw, against("UCX-shared", "tag_bw", bw), false, .8, 1},
			{"msg: 1 MiB tag bandwidth, of UCX over posix,cma, tag_bw", allocated, against("UCX-shared", "tag_bw", bw), false, .8, 1},
		})
	}
	shared[0].Gate, shared[0].Stretch = 0, 0 // only for comparison
	return slices.Concat(shared, callFigures(), []Figure{
		{"msg: 8 B tag latency, of SEND", lat, against("softrdma", "send", lat), true, 1.25, 1.1},
		{"msg: 1 MiB tag bandwidth, of WRITE", bw, against("softrdma", "write", bw), false, .9, .97},
	})
}
