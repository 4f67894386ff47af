// Package sm has the subnet manager of an InfiniBand fabric (IBTA chapter 14):
// it discovers the subnet by directed routes, assigns LIDs, computes and
// programs forwarding tables, brings links up, watches for changes, and agrees
// with other managers on one master. As subnet administrator (chapter 15) it
// answers queries for records and tables, and keeps multicast groups, services
// and subscriptions to notices.
//
// Each subject is a part with its own state: requests to agents, discovery, the subnet as it is
// numbered and routed, what is written to nodes, and for clients of the administrator: replies,
// groups, services, notices, paths, and tables that nodes hold. The Manager decides when they act.
//
// The Manager is a machine: management packets in, management packets out,
// next deadline. It does no I/O and reads no clock. The node at which it runs moves the
// packets, and the agents decide what they change.
package sm

import (
	"time"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// A Config says how a manager works. Zero values have defaults.
type Config struct {
	GUID     uint64 // of the port at which the manager runs
	Priority uint8  // 0 to 15; among equals the lower GUID wins (IBTA 14.4.1)
	SMKey    uint64 // of the managers that agree with this one: 1, which others have as their default
	MKey     uint64

	// AdministrationKey is the SM_Key of trusted queries to the administrator: 1, which
	// other managers and tools have as their default.
	AdministrationKey uint64

	GIDPrefix uint64 // of the subnet: fe80::/64
	LMC       uint8
	Algorithm routing.Algorithm // UpDown takes its place where it cannot route the fabric

	// Partitions are the partitions of the subnet. Without any, all ports are full members
	// of the default one.
	Partitions []Partition

	MaxNodes      int           // of a fabric, beyond which a sweep takes no notice of more: 49,151
	Outstanding   int           // requests without an answer: 64
	Timeout       time.Duration // of a request: 200 ms
	Retries       int           // of a request: 3
	SweepInterval time.Duration // between looks at all switches: 10 s
	PollInterval  time.Duration // between a standby's questions to the master: 5 s
	PollRetries   int           // questions without an answer after which a standby looks for itself: 3
}

func (c *Config) setDefaults() {
	set(&c.GIDPrefix, 0xfe80000000000000)
	set(&c.SMKey, 1)
	set(&c.AdministrationKey, 1)
	set(&c.MaxNodes, topology.LastUnicastLID)
	set(&c.Outstanding, 64)
	set(&c.Timeout, 200*time.Millisecond)
	set(&c.Retries, 3)
	set(&c.SweepInterval, 10*time.Second)
	set(&c.PollInterval, 5*time.Second)
	set(&c.PollRetries, 3)
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// MaxPriority is the highest priority of a manager.
const MaxPriority = 15

// An Arrival is a packet for the manager, which came to queue pair 0, or for
// the administrator, which came to queue pair 1.
type Arrival struct {
	SLID      uint16
	SL        uint8
	SourceQPN uint32
	MAD       *[mad.Len]byte
}

// A Departure is a packet that leaves from queue pair QPN and has a
// destination of its own. QPN is 0 for the manager's packets.
type Departure struct {
	DLID           uint16 // the permissive LID for a directed route
	SL             uint8
	QPN            uint32
	DestinationQPN uint32
	MAD            [mad.Len]byte
}

// A Manager is a subnet manager. It decides when to sweep and which manager is master. Its fields
// of other types do the rest, one subject each. It is not safe for concurrent use.
type Manager struct {
	config Config
	state  smp.SMState
	off    bool // stopped
	now    time.Duration
	acts   uint32 // ActCount of SMInfo
	status Status

	phase      phase
	next       time.Duration           // when the next look or poll is due
	master     *manager                // the manager that a standby polls
	unanswered int                     // polls in a row
	announced  map[uint64]topology.End // the ports with LIDs at the end of the last sweep

	requests  requests  // to agents
	discovery discovery // what the sweep finds
	subnet    subnet    // its LIDs and routes
	writer    writer    // what nodes are to hold

	replies  replies // to clients of the administrator, and to agents
	groups   groups
	services services
	notices  notices
	paths    pathFinder
	reader   tableReader
	admin    administrator
}

// A Status says what a manager has done.
type Status struct {
	State     smp.SMState
	Sweeps    int // completed ones that looked at everything
	Failures  int // requests of the last one without a good answer
	Algorithm routing.Algorithm
	Reason    error // why Algorithm is not the one of the configuration, or why nothing was routed
}

// New returns a manager that begins to discover at its first Next.
func New(c *Config) *Manager {
	m := &Manager{config: *c, state: smp.SMDiscovering}
	m.config.setDefaults()
	m.requests = requests{config: &m.config, outstanding: make(map[uint64]*request)}
	m.discovery = discovery{config: &m.config, requests: &m.requests, again: true}
	m.subnet = subnet{config: &m.config, lids: make(map[uint64]assignment)}
	m.writer = writer{config: &m.config, requests: &m.requests, subnet: &m.subnet, programmed: make(map[uint64][]uint8),
		multicast: make(map[uint64]map[multicastBlock]smp.MulticastForwarding), incomplete: func() { m.status.Failures++ }}
	m.groups = groups{subnet: &m.subnet, writer: &m.writer, replies: &m.replies, notices: &m.notices, byMGID: make(map[mad.GID]*group)}
	m.services = services{subnet: &m.subnet, replies: &m.replies}
	m.notices = notices{subnet: &m.subnet, replies: &m.replies}
	m.paths = pathFinder{&m.subnet, &m.replies}
	m.reader = tableReader{subnet: &m.subnet, requests: &m.requests, replies: &m.replies}
	m.admin = administrator{&m.subnet, &m.discovery, &m.writer, &m.replies, &m.groups, &m.services, &m.notices, &m.paths, &m.reader, m.ownInfo}
	return m
}

// Status returns what the manager has done.
func (m *Manager) Status() Status {
	s := m.status
	s.State = m.state
	return s
}

// Idle reports whether the manager has nothing to do before its deadline.
func (m *Manager) Idle() bool {
	return m.phase == idle && !m.discovery.again && m.requests.empty() && m.replies.empty() && len(m.notices.reports) == 0
}

// Fabric returns the fabric as the last complete sweep found it, and the tables
// that it programmed, or nil before the first.
func (m *Manager) Fabric() (*topology.Fabric, *routing.Tables) {
	return m.subnet.fabric, m.subnet.tables
}

// Next writes the next packet to send, and reports whether there is one.
func (m *Manager) Next(now time.Duration, out *Departure) bool {
	m.now = now
	for {
		m.requests.expire(now)
		if m.replies.next(now, out) || m.notices.sendReports(now, out) || m.requests.send(now, out) {
			return true
		}
		if !m.requests.empty() || !m.advance() {
			return false
		}
	}
}

// Deadline returns when Next has something to do.
func (m *Manager) Deadline() time.Duration {
	if m.requests.ready(m.config.Outstanding) {
		return 0
	}
	d := min(m.replies.deadline(), m.notices.deadline())
	switch {
	case !m.requests.empty():
		return min(d, m.requests.deadline())
	case m.phase != idle || m.discovery.again && m.state != smp.SMStandby && m.state != smp.SMNotActive:
		return 0
	case m.state == smp.SMNotActive:
		return d
	}
	return min(d, m.next)
}

// Stop stops the manager: it sends nothing and ignores all packets.
func (m *Manager) Stop() {
	m.forget()
	m.replies.waiting, m.off = nil, true
	m.state, m.phase, m.discovery.again, m.master = smp.SMNotActive, idle, false, nil
}

// Restart makes a stopped manager discover the subnet, and become master or stand by.
func (m *Manager) Restart() {
	if m.off {
		m.off = false
		m.rediscover()
	}
}

// Receive handles a packet.
func (m *Manager) Receive(now time.Duration, in *Arrival) {
	m.now = now
	if m.off {
		return
	}
	var p smp.Packet
	p.Parse(in.MAD)
	switch {
	case p.Method&mad.ResponseBit != 0 && p.Method != mad.MethodTrapRepress:
		m.requests.answered(&p)
	case p.Method == mad.MethodTrap && p.Attribute == mad.AttrNotice:
		m.trap(in, &p)
	case p.Attribute == smp.AttrSMInfo && (p.Method == mad.MethodGet || p.Method == mad.MethodSet):
		m.smInfo(in, &p)
	}
}
