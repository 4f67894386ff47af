package port

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// Tick is the unit of hardware.Counters.XmitWait: a symbol time at 2.5 Gb/s.
const Tick = 4 * time.Nanosecond

// Limits of a Config's values.
const (
	MaxVLs      = ib.VLs - 1 // data lanes
	MaxBuffer   = ib.MaxCredit
	minBuffer   = (ib.MaxNativeLen + ib.CreditBlock - 1) / ib.CreditBlock
	defaultSize = 512
	maxMTU      = 4096
)

// A Config is what a port is made with.
type Config struct {
	Number int
	VLs    int // data lanes, 1 to MaxVLs; 0 is 8

	// Buffer is the room for packets that arrive on each data lane, in blocks of 64 bytes; 0
	// is 512. At least a longest packet fits.
	Buffer int

	// Management is the number of packets for which lane 15 has room, in each direction; 0
	// is 64.
	Management int

	// Refresh is the longest time between two grants of credit for a lane. 0 is half of
	// what the specification allows (IBTA 7.9.4). With Never, which deviates from it, a port
	// grants credit only when that changes, so that an idle link has no events. Lost
	// packets then cost their credits for good: use it on links that lose nothing.
	Refresh time.Duration

	// Instant is a link on which packets take no time.
	Instant bool

	// Early is how long before the link is free the next packet may leave; 0 is never. The rate of
	// the link stays the same, but short rows of packets leave together, which costs less.
	Early time.Duration

	// NoVCRC is a link that changes nothing, as within a process: no VCRC is computed. Its two
	// bytes are 0, and a receiver takes any other value for a wrong VCRC.
	NoVCRC bool
}

// An Env is what the ports of a node share.
type Env struct {
	Pool     *Pool
	Schedule Schedule

	// Dropped is called for each packet that is dropped, with the port that dropped it. It may
	// be nil.
	Dropped func(port int, d reason.Detail)

	// Violated is called for each packet whose P_Key a port refuses, before it is dropped,
	// which leaves the frame to the port. It may be nil.
	Violated func(port int, frame []byte)

	// Failed is called when a link that stays up has an error. It may be nil.
	Failed func(port int, e hardware.LinkError)

	// Changed is called after the link state of a port has changed. It may be nil.
	Changed func(port int)
}

// A lane is a virtual lane with both directions of its flow control.
type lane struct {
	queue queue         // packets to send
	since time.Duration // when the head of the queue came there

	sent  ib.Blocks // FCTBS: blocks sent
	limit ib.Blocks // FCCL: the peer takes blocks up to this count

	received ib.Blocks // ABR: blocks that arrived
	told     ib.Blocks // the last limit granted
	occupied int       // blocks of packets in the buffer

	blocked   time.Duration // since when the head lacks credit; -1 if it does not
	discards  uint8         // in a row, for their time at the head of the queue
	stalled   time.Duration // until when all packets are discarded
	refreshed time.Duration // when the last grant left
	heard     time.Duration // when the last grant came
}

// A Port is one port. Its methods keep its deadline in Env.Schedule.
type Port struct {
	number int
	env    *Env
	timer  Timer
	config hardware.PortConfig
	link   hardware.Link

	Counters hardware.Counters

	lanes      []lane // data lanes
	management queue  // lane 15
	managed    int    // packets of lane 15 in the buffer
	buffer     int
	room       int           // for packets of lane 15
	refresh    time.Duration // as configured
	every      time.Duration // refresh of the link at its speed
	instant    bool
	noVCRC     bool
	early      time.Duration

	marginal int // packets with physical errors, less those without that followed

	waiting uint16 // data lanes with packets to send
	grants  uint16 // data lanes with a grant to send

	rate    uint64        // picoseconds for a byte
	carry   uint64        // picoseconds behind busy
	busy    time.Duration // until when packets that have left take the link
	sending *Packet       // leaves its buffer when the next packet may leave

	arbiter    arbiter
	partitions []uint16
	waits      time.Duration // since when a packet waits although nothing leaves; -1 if none does
}

// New returns a port without a link.
func New(env *Env, c Config) *Port {
	if c.VLs == 0 {
		c.VLs = 8
	}
	if c.Buffer == 0 {
		c.Buffer = defaultSize
	}
	if c.Management == 0 {
		c.Management = 64
	}
	p := &Port{number: c.Number, env: env, timer: Timer{Port: c.Number}, lanes: make([]lane, min(c.VLs, MaxVLs)),
		buffer: min(max(c.Buffer, minBuffer), MaxBuffer), room: c.Management, refresh: c.Refresh, instant: c.Instant, noVCRC: c.NoVCRC, early: c.Early,
		partitions: []uint16{smp.DefaultPKey}, waits: -1}
	p.config = hardware.PortConfig{MTU: maxMTU, VLs: min(c.VLs, MaxVLs), HOQLife: hardware.Unlimited,
		Width: smp.WidthAsSupported, PhysicalErrors: 8, Speed: smp.SpeedAsSupported, ExtSpeed: smp.ExtSpeedAsSupported, DownDefault: smp.PhysicalPolling}
	p.link = hardware.Link{State: smp.PortDown, Physical: smp.PhysicalPolling}
	return p
}

// Number returns the port's number.
func (p *Port) Number() int { return p.number }

// Config returns what a manager has set.
func (p *Port) Config() *hardware.PortConfig { return &p.config }

// Configure sets what a manager sets. The port ignores lanes that it does not have.
func (p *Port) Configure(now time.Duration, c *hardware.PortConfig) {
	p.config = *c
	p.config.VLs = min(max(c.VLs, 1), len(p.lanes))
	p.config.MTU = min(c.MTU, maxMTU)
	if c.DownDefault == smp.PhysicalNoChange {
		p.config.DownDefault = smp.PhysicalPolling
	}
	p.reschedule(now)
}

// SetPartitions replaces the partition table. Entries of zero are unused.
func (p *Port) SetPartitions(table []uint16) { p.partitions = append(p.partitions[:0], table...) }

// Partitions returns the partition table.
func (p *Port) Partitions() []uint16 { return p.partitions }

// drop drops a packet that is in the node.
func (p *Port) drop(now time.Duration, k *Packet, d reason.Detail) {
	p.report(d)
	p.env.Pool.Free(now, k)
}

// refuse drops a frame that did not become a packet.
func (p *Port) refuse(frame []byte, d reason.Detail) {
	p.report(d)
	p.env.Pool.Recycle(frame)
}

func (p *Port) report(d reason.Detail) {
	if p.env.Dropped != nil {
		p.env.Dropped(p.number, d)
	}
}

// Buffered returns the number of blocks that the buffer of a data lane holds.
func (p *Port) Buffered(vl uint8) int {
	if int(vl) >= len(p.lanes) {
		return 0
	}
	return p.lanes[vl].occupied
}
