package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"
)

// The operations of Config.
const (
	OpUDP = "udp" // UDP with segmentation and receive offload, both ends polling: the upper limit
	OpTCP = "tcp" // one stream with cubic

	OpSystemTCP = "tcp as it is" // one stream with the system's congestion control

	// OpRDMANet is not the kernel's: a stream of rdmanet in the same loops.
	OpRDMANet = "rdmanet"
)

// A Kind is a kind of measurement.
type Kind string

// The kinds.
const (
	Stream   Kind = "stream"   // messages in one direction, many outstanding
	Ping     Kind = "ping"     // one message back and forth
	Saturate Kind = "saturate" // as many bytes as the path carries, on several connections
)

// MaxFlows is the maximum number of connections of one measurement.
const MaxFlows = 1024

// A Config configures one end of a loop. Encoded as JSON it is the argument
// of `bench end`.
type Config struct {
	Server  bool       `json:"server"`
	Op      string     `json:"op"`
	Kind    Kind       `json:"kind"`
	Local   netip.Addr `json:"local"`
	Peer    netip.Addr `json:"peer"`
	Port    uint16     `json:"port"`    // the next port is used too
	Bytes   int        `json:"bytes"`   // of a message
	Segment int        `json:"segment"` // bytes of a datagram of a stream over UDP
	Events  bool       `json:"events"`  // sleep in the kernel instead of polling
	Seconds float64    `json:"seconds"`
	Control string     `json:"control"` // TCP's congestion control; "" is the system's
	Flows   int        `json:"flows"`   // for Saturate
	Margin  float64    `json:"margin"`  // for Saturate: seconds at the beginning and the end that are not measured

	SameHost string  `json:"same_host"` // for OpRDMANet: value of --same-host
	Sockets  Sockets `json:"-"`         // for OpRDMANet
}

// ParseConfig parses and checks the argument of `bench end`.
func ParseConfig(text string) (*Config, error) {
	c := &Config{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("configuration of an end: %w", err)
	}
	return c, c.check()
}

// FreePort returns a random port outside the system's range of ephemeral ports. It is
// probably unused.
func FreePort() uint16 { return uint16(20000 + rand.IntN(12000)) }

func (c *Config) duration() time.Duration { return seconds(c.Seconds) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// check returns an error if the configuration is invalid.
func (c *Config) check() error {
	switch {
	case !c.Local.IsValid() || !c.Peer.IsValid():
		return fmt.Errorf("addresses: expected two, found %v and %v", c.Local, c.Peer)
	case c.Bytes < 2 || c.Bytes > 1<<24:
		return fmt.Errorf("bytes of a message: expected 2 to %d, found %d", 1<<24, c.Bytes)
	case c.Kind == Saturate && (c.Op != OpTCP || c.Flows < 1 || c.Flows > MaxFlows || !(c.Margin >= 0) || 2*c.Margin >= c.Seconds):
		return fmt.Errorf("saturate: expected tcp, 1 to %d flows and a margin of less than half the time, found %s, %d, and %v of %v seconds",
			MaxFlows, c.Op, c.Flows, c.Margin, c.Seconds)
	case c.Op == OpRDMANet && c.Kind == Ping && !c.Events:
		return errors.New("rdmanet: expected a stream or a ping with events")
	case c.Segment < 64 || c.Segment > 1<<15:
		return fmt.Errorf("bytes of a datagram: expected 64 to %d, found %d", 1<<15, c.Segment)
	}
	return nil
}

// Args returns the command line of the end.
func (c *Config) Args(path string) ([]string, error) {
	text, err := json.Marshal(c)
	return []string{path, "end", string(text)}, err
}

// An end is one end of a loop. The client calls ask while the server calls serve.
type end interface {
	ask() (Result, error)
	serve() (received, error)
	close()
}

func newEnd(c *Config) (end, error) {
	switch c.Op {
	case OpUDP:
		return newUDPEnd(c)
	case OpTCP:
		return newStreamEnd(c, tcpSockets{c})
	case OpRDMANet:
		return newStreamEnd(c, c.Sockets)
	}
	return nil, fmt.Errorf("operation: expected %s, %s or %s, found %q", OpUDP, OpTCP, OpRDMANet, c.Op)
}
