package host

import (
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/logpage"
)

// DefaultNQN is the qualified name of a host that has no other.
const DefaultNQN = "nqn.2014-08.org.nvmexpress:uuid:736f6674-7264-6d61-8000-000000000001"

// A Config says how Dial and Connect connect to controllers.
type Config struct {
	Subsystem string   // qualified name; empty means the discovery service
	Host      string   // qualified name; empty means DefaultNQN
	HostID    [16]byte // zero: derived from DefaultNQN

	Queues    int           // I/O queues; 0 means 1
	QueueSize int           // entries of a queue, 2 to 128; 0 means 32
	KeepAlive time.Duration // 0 means 5 s, a negative value none

	// CommandTimeout is how long a command may take before its connection is given up; 0 means 30 s, a
	// negative value without limit.
	CommandTimeout time.Duration

	// Repeats is how often a command is repeated that the controller fails with a status that allows it;
	// 0 means 5, as in Linux, a negative value never.
	Repeats int

	// LossTimeout is how long the host tries to connect again after a connection has ended. Commands wait
	// meanwhile, and are repeated. 0 means that a controller is lost with its connection, a negative value
	// that the host never gives up. Linux calls it ctrl_loss_tmo.
	LossTimeout time.Duration

	// ReconnectDelay is the time before each attempt to connect again; 0 means 1 s.
	ReconnectDelay time.Duration

	// FastFail is how long commands wait for a connection if no other path has one. They fail
	// afterwards, while the host continues to try. 0 means that they wait as long as it tries. Linux
	// calls it fast_io_fail_tmo.
	FastFail time.Duration

	// Secrets authenticate the host, and the controller if its secret is there, on each queue.
	Secrets auth.Secrets

	Dialer rdmacm.Dialer // of all queues, unless a Path has its own

	// Events is called when connections end and stand again, on goroutines of controllers. It must not
	// block. Nil is allowed.
	Events func(Event)
}

var defaultHostID = [16]byte{0x73, 0x6f, 0x66, 0x74, 0x72, 0x64, 0x6d, 0x61, 0x80, 15: 1}

// setDefaults checks the configuration and fills in what it leaves out.
func (cfg *Config) setDefaults() error {
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
	for _, x := range []struct {
		d     *time.Duration
		usual time.Duration
	}{{&cfg.KeepAlive, 5 * time.Second}, {&cfg.CommandTimeout, 30 * time.Second}, {&cfg.ReconnectDelay, time.Second}} {
		if *x.d == 0 {
			*x.d = x.usual
		}
	}
	if cfg.Repeats == 0 {
		cfg.Repeats = maxRepeats
	}
	if cfg.QueueSize < 2 || cfg.QueueSize > 128 {
		return fmt.Errorf("queue size: expected 2 to 128 entries, found %d", cfg.QueueSize)
	}
	if cfg.Events == nil {
		cfg.Events = func(Event) {}
	}
	return nil
}

// An EventKind says what has happened to a controller.
type EventKind string

// The kinds.
const (
	Lost      EventKind = "connection lost"
	Connected EventKind = "connected again"
	Failed    EventKind = "could not connect" // an attempt
	GivenUp   EventKind = "given up"
	Differs   EventKind = "not usable" // a namespace that is another one at this controller
)

// An Event is what has happened to a controller.
type Event struct {
	Kind EventKind
	Addr string // of the controller
	Err  error
}

// String returns the event in one line.
func (e Event) String() string {
	s := e.Addr + ": " + string(e.Kind)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}
