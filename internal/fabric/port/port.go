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

	// Flow is the flow control of the link.
	Flow Flow

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

func (e *Env) report(port int, d reason.Detail) {
	if e.Dropped != nil {
		e.Dropped(port, d)
	}
}

func (e *Env) failed(port int, err hardware.LinkError) {
	if e.Failed != nil {
		e.Failed(port, err)
	}
}

// A lane is the packets of a virtual lane that wait to be sent.
type lane struct {
	queue queue
	since time.Duration // when the head of the queue came there

	blocked  time.Duration // since when the neighbor has no room for the head; -1 if it has
	discards uint8         // in a row, for their time at the head of the queue
	stalled  time.Duration // until when all packets are discarded
}

// A Port is one port. Its methods keep its deadline in Env.Schedule.
type Port struct {
	number int
	env    *Env
	timer  Timer
	config hardware.PortConfig
	link   hardware.Link

	Counters hardware.Counters

	pace
	partitions

	buffer     buffer
	flow       flow
	lanes      []lane // data lanes
	management queue  // lane 15
	managed    int    // packets of lane 15 in the buffer
	room       int    // for packets of lane 15
	noVCRC     bool

	marginal int // packets with physical errors, less those without that followed

	waiting uint16  // data lanes with packets to send
	sending *Packet // leaves its buffer when the next packet may leave

	arbiter arbiter
	waits   time.Duration // since when a packet waits although nothing leaves; -1 if none does
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
	p := &Port{number: c.Number, env: env, timer: Timer{Port: c.Number}, lanes: make([]lane, min(c.VLs, MaxVLs)), room: c.Management, noVCRC: c.NoVCRC,
		pace: pace{refresh: c.Refresh, instant: c.Instant, early: c.Early}, partitions: partitions{smp.DefaultPKey}, waits: -1}
	p.SetBuffer(c.Buffer)
	p.flow = c.Flow.new(&p.buffer, len(p.lanes))
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

// drop drops a packet that is in the node.
func (p *Port) drop(now time.Duration, k *Packet, d reason.Detail) {
	p.env.report(p.number, d)
	p.env.Pool.Free(now, k)
}

// refuse drops a frame that did not become a packet.
func (p *Port) refuse(frame []byte, d reason.Detail) {
	p.env.report(p.number, d)
	p.env.Pool.Recycle(frame)
}

// Buffered returns the number of blocks that the buffer of a data lane holds.
func (p *Port) Buffered(vl uint8) int {
	if int(vl) >= len(p.lanes) {
		return 0
	}
	return int(p.buffer.occupied[vl])
}

// free frees a packet's place in the buffer.
func (p *Port) free(now time.Duration, vl uint8, blocks int) {
	if vl == ib.ManagementVL {
		p.managed--
		return
	}
	p.buffer.occupied[vl] -= int32(blocks)
	if p.link.Physical == smp.PhysicalLinkUp {
		p.flow.freed(int(vl))
		p.reschedule(now)
	}
}

// SetBuffer sets the room of each data lane, as Config.Buffer does, for a link with another
// delay than the node's other links have. The link is down.
func (p *Port) SetBuffer(blocks int) { p.buffer.size = min(max(blocks, minBuffer), MaxBuffer) }

// SetRefresh sets the longest time between two grants of credit for a lane, and lets the port
// repeat all grants now. See Config.Refresh.
func (p *Port) SetRefresh(now, every time.Duration) {
	p.refresh = every
	p.set(&p.link)
	p.flow.refreshAll(now, p.config.VLs)
	p.reschedule(now)
}
