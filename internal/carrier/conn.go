package carrier

import (
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

const (
	MaxMoves      = 16 // READs and WRITEs in flight, unless the path is long
	SpareReceives = 32 // receives beyond those that an owner may keep

	// ReadDepth is how many READs a protocol lets be in flight when it connects. Long paths need
	// many of them.
	ReadDepth = 64

	// FarQueue is a ConnConfig.Queue for READs and WRITEs of 64 KiB that fill 500 Mbit/s over 100 ms where one
	// packet in a hundred is lost.
	FarQueue = 500
)

// The kind of a work request, in the upper bits of its number. The connection and an index
// follow.
const (
	workFrame   = iota // the frame of a slot
	workReceive        // a receive
	workMove           // a READ or WRITE
	workOther          // the owner's
)

// A Conn carries frames to and from one peer. The engine's lock guards it.
type Conn struct {
	e      *Engine
	owner  Owner
	index  uint32 // of Engine.conns
	Number uint32 // of the engine's connections, from 1
	Rail   *Rail
	CM     *rdmacm.Conn // once it is established
	Err    error        // why the connection has failed

	cfg     ConnConfig
	room    int // completions in the rail's queue
	qp      *verbs.QP
	credits Credits // nil if the peer needs none

	receives receives
	slots    slots
	reserved int            // by Reserve, -1 if the shortcut has it
	unposted []verbs.SendWR // frames that push posts, all with one doorbell
	backlog  []work
	reads    reads
	added    uint64   // work that was ever in backlog
	joined   int      // frames that followed another one in its slot, by the last begin
	shortcut Shortcut // of frames that are sent now

	moves moves
	sends int       // requests in flight on a short path
	made  time.Time // before the connection was established

	dirty   bool
	started bool
	early   []verbs.WC // completions before Start
	ended   bool       // CM has ended
	broken  error      // why work could not be posted
	gone    bool       // the queue pair is destroyed

	sge [1]verbs.SGE
}

// A ConnConfig is what a connection is made of. The connection's slots are memory for frames of which the
// owner keeps no copy. The owner's are of Out: what they have can be sent again on another connection.
type ConnConfig struct {
	Owner    Owner
	Domain   *Domain
	Rail     *Rail
	Receives int
	Frame    int     // bytes of a frame that this end accepts
	Slots    int     // of the connection
	Size     int     // of these slots; 0 leaves them to Prepare
	Out      *Frames // nil if the owner has no slots
	OutSlots int
	Others   int                           // requests of Post in flight
	Inline   int                           // bytes of a frame up to which the queue pair copies it
	Queue    int                           // requests in flight on a long path, if more than those of the slots, MaxMoves and Others
	Every    int                           // one of so many frames has a completion, at most Slots; 0 means 1, as do slots of the owner's
	Joins    func(frame, next []byte) bool // whether a frame of the connection's slots may follow another one in the same slot; without credits
	Placed   bool                          // a WRITE completes when the bytes are in the peer's memory, also over iWARP
	Timeout  time.Duration                 // see verbs.QPConfig.PeerTimeout
}

// NewConn makes a connection with its receives posted. After an error the caller discards the connection
// that it returns.
func (e *Engine) NewConn(cfg ConnConfig, create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)) (c *Conn, err error) {
	c = &Conn{e: e, owner: cfg.Owner, Rail: cfg.Rail, cfg: cfg}
	c.slots = newSlots(&c.cfg)
	sends := cfg.OutSlots + cfg.Slots + MaxMoves + cfg.Others
	if cfg.Placed {
		sends += MaxMoves + cfg.Others // for the READs that follow WRITEs
	}
	if err = e.reserve(c, sends+cfg.Receives); err != nil {
		return c, err
	}
	if c.receives.in, err = cfg.Domain.Frames(cfg.Receives, cfg.Frame, verbs.LocalWrite, c.Rail); err != nil {
		return c, err
	}
	if cfg.Size > 0 {
		if err := c.Prepare(cfg.Size); err != nil {
			return c, err
		}
	}
	pd, err := cfg.Domain.PD(c.Rail)
	if err != nil {
		return c, err
	}
	c.qp, err = create(pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: c.Rail.cq, MaxSend: max(sends, cfg.Queue), MaxRecv: cfg.Receives, MaxSendSGE: 1, MaxRecvSGE: 1,
		MaxInline: cfg.Inline, PeerTimeout: cfg.Timeout,
	})
	if err != nil {
		return c, err
	}
	if c.sends = sends; !cfg.Placed {
		c.moves.most = c.qp.Query().MaxSend - cfg.Others // it may hold more than was asked for
	}
	for i := range cfg.Receives {
		if err := c.receives.add(c, i); err != nil {
			return c, err
		}
	}
	c.made = time.Now()
	return c, c.receives.post(c)
}

// Join makes a connection without a queue pair, for an owner of several others. It is pushed as they are.
func (e *Engine) Join(o Owner) *Conn { return &Conn{e: e, owner: o} }

// Prepare allocates the connection's slots, of n bytes.
func (c *Conn) Prepare(n int) (err error) {
	c.slots.vacate(&c.cfg)
	c.slots.out, err = c.cfg.Domain.Frames(c.cfg.Slots, n, 0, c.Rail)
	return err
}

// QP returns the queue pair.
func (c *Conn) QP() *verbs.QP { return c.qp }

// id returns the number of a work request.
func (c *Conn) id(kind, i int) uint64 { return uint64(kind)<<48 | uint64(c.index)<<16 | uint64(i) }

// postCredits posts the receives that wait, which gives the peer credits.
func (c *Conn) postCredits() {
	if err := c.receives.post(c); err != nil {
		c.Break(err)
	}
}

// Start begins to serve the connection, which was established. Its peer has posted its receives.
func (c *Conn) Start(cm *rdmacm.Conn, credits Credits) {
	c.CM, c.credits, c.started = cm, credits, true
	c.moves.setup = time.Since(c.made)
	c.moves.local = c.qp != nil && !c.cfg.Placed && c.Rail.Dev.Protocol() == verbs.IWARP
	if c.moves.path.Path(c.moves.setup); c.moves.path.Short() && c.qp != nil {
		c.qp.TrimSend(c.sends)
		c.moves.most = 0
	}
	var err error
	if c.cfg.Out != nil {
		c.slots.region, err = c.cfg.Out.On(c.Rail)
	}
	if c.Err == nil {
		c.Err = err
	}
	if c.Err != nil { // the device has closed meanwhile
		c.finish()
		return
	}
	for i := range c.early {
		c.complete(&c.early[i])
	}
	c.early = nil
	c.e.Flush()
	c.e.Ending.Add(1)
	go c.watch()
}

// watch notices that the peer has disconnected. Engine.Progress ends the connection when it has taken
// what arrived before.
func (c *Conn) watch() {
	defer c.e.Ending.Done()
	<-c.CM.Done()
	c.e.Lock()
	c.ended, c.e.ending = true, true
	c.e.host.Event()
	c.e.host.Unlock()
}

// complete takes a completion.
func (c *Conn) complete(wc *verbs.WC) {
	if !c.started {
		c.early = append(c.early, *wc)
		return
	}
	if wc.Status != verbs.Success {
		c.lose(Cause(wc, c.CM.Err()))
	}
	i := int(uint16(wc.WRID))
	switch kind := wc.WRID >> 48; {
	case kind == workFrame:
		c.completeFrames(i)
	case kind == workMove:
		c.moved(i, wc.Err())
	case c.Err != nil:
	case kind == workReceive:
		c.arrived(i, int(wc.ByteLen))
	case kind == workOther:
		c.owner.Done(c, i)
	}
	c.Mark()
}

// arrived takes a frame.
func (c *Conn) arrived(i, n int) {
	b := c.receives.in.Bytes(i)[:n]
	var keep bool
	var err error
	if c.credits != nil {
		err = c.credits.Learn(b)
	}
	if err == nil {
		keep, err = c.owner.Arrive(c, b, i)
	}
	switch {
	case err != nil:
		c.Fail(err)
	case keep:
		if err := c.receives.keep(c); err != nil {
			c.Break(err)
		}
	default:
		c.repost(i)
	}
}

// Release frees a receive that Owner.Arrive kept.
func (c *Conn) Release(i int) {
	if c.receives.held--; c.gone {
		c.receives.free()
	}
	c.repost(i)
}

func (c *Conn) repost(i int) {
	if c.Err != nil || c.broken != nil {
		return
	}
	if c.broken = c.receives.add(c, i); c.broken != nil || c.credits != nil {
		c.Mark()
	}
}

// Mark makes Engine.Flush push the connection.
func (c *Conn) Mark() {
	if !c.dirty {
		c.dirty = true
		c.e.dirty = append(c.e.dirty, c)
	}
}

// push sends what can be sent now.
func (c *Conn) push() {
	if c.dirty = false; c.Err != nil {
		return
	}
	if c.reads.turn = !c.reads.turn; c.reads.turn { // WRITEs that wait have the other turns
		c.reads.start(c)
	}
	n := 0
	for c.open() && n < len(c.backlog) && c.begin(&c.backlog[n], c.backlog[n+1:]) {
		n += 1 + c.joined
	}
	if k := copy(c.backlog, c.backlog[n:]); n > 0 {
		clear(c.backlog[k:])
		c.backlog = c.backlog[:k]
	}
	overtake(c)
	c.reads.start(c)
	c.owner.Push(c)
	if c.open() && c.credits != nil {
		c.postCredits()
		if c.credits.Owes(c.receives.held) && vacantSlot(c) {
			i := c.slots.take()
			c.post(i, c.credits.Grant(c.slots.bytes(i)))
		}
	}
	c.Flush()
	if c.broken != nil {
		c.Fail(c.broken)
	}
}

// open reports whether work can be posted.
func (c *Conn) open() bool { return c.Err == nil && c.broken == nil }
