package carrier

import (
	"slices"
	"time"

	"softrdma/internal/flight"
	"softrdma/verbs"
)

// fewFrames is how many frames may be in flight beside more than MaxMoves moves. Further frames wait, and
// follow each other in few slots. There are twice as many as have one completion.
const fewFrames = 32

// moves are the READs and WRITEs of a connection in flight. There are MaxMoves of them, which is
// enough for a short path. On a long one there are as many as the queue pair has room for, while
// they move fewer bytes than the path holds. Two messages in three lose a packet where a hundredth
// is lost, and what is behind them waits until it has been sent again, which may take three more
// round trips. So that is counted six times.
type moves struct {
	list  []Move // by slot
	n     int
	bytes int
	most  int  // of moves and frames in flight, on a long path
	wide  bool // there are completions for so many
	local bool // a WRITE completes when this end's TCP has taken it

	setup  time.Duration // of the connection
	path   flight.Tuner
	timed  int    // slot of the move that is timed
	passed uint64 // bytes that were moved
}

// begin keeps a move that is posted now, and returns its slot.
func (m *moves) begin(x *Move) int {
	i := slices.IndexFunc(m.list, func(x Move) bool { return x.By == nil })
	if i < 0 {
		i = len(m.list)
		m.list = append(m.list, Move{})
	}
	m.list[i] = *x
	m.n++
	m.bytes += len(x.Data)
	if !m.path.Timing() && !m.path.Short() && !(x.Write && m.local) {
		m.timed = i
		m.path.Begin(sinceStart(), m.passed)
	}
	return i
}

// end removes a move, which has moved its bytes if it has succeeded.
func (m *moves) end(i int, succeeded bool) Move {
	x := m.list[i]
	m.list[i] = Move{}
	m.n--
	m.bytes -= len(x.Data)
	if succeeded {
		m.passed += uint64(len(x.Data))
		if m.timed == i && m.path.Timing() {
			m.path.End(sinceStart(), m.passed)
		}
	}
	return x
}

var start = time.Now()

func sinceStart() time.Duration { return time.Since(start) }

// Move begins a READ or WRITE. Frames and moves that begin later are posted behind a WRITE. They may pass a READ
// that waits: on a long path it may be that of a long body, which takes seconds.
func (c *Conn) Move(m Move) {
	if m.Write {
		c.add(work{move: m})
		return
	}
	c.reads.waiting = append(c.reads.waiting, read{move: m})
	c.reads.start(c)
	c.Mark()
}

// A read is a READ that waits, or what is left of one. On a long path a READ is cut into pieces: its responder
// sends all of it at once, which overflows the queues of the path.
type read struct {
	move   Move
	pieces *pieces // nil if it is not cut, or has not begun
	at     int     // bytes that have begun
}

// reads are READs that have not begun.
type reads struct {
	waiting []read
	turn    bool // before the backlog
}

// start begins READs of a connection, oldest first, while that is possible.
func (x *reads) start(c *Conn) {
	for len(x.waiting) > 0 && c.open() && c.Movable(MaxMoves) {
		r := &x.waiting[0]
		if r.pieces == nil && len(r.move.Data) > farPiece && c.Long() {
			r.pieces = &pieces{by: r.move.By, whole: r.move, left: (len(r.move.Data) + farPiece - 1) / farPiece}
		}
		m := r.move
		if r.pieces != nil {
			m.By, m.Data, m.Address = r.pieces, m.Data[r.at:min(r.at+farPiece, len(m.Data))], m.Address+uint64(r.at)
		}
		if r.at += len(m.Data); r.at == len(r.move.Data) {
			x.waiting = slices.Delete(x.waiting, 0, 1)
		}
		c.postMove(&m)
	}
}

// giveBack ends READs that have not begun.
func (x *reads) giveBack(c *Conn) {
	waiting := x.waiting
	x.waiting = nil
	for _, r := range waiting {
		if r.pieces == nil {
			r.move.By.Moved(c, r.move, c.Err)
			continue
		}
		for at := r.at; at < len(r.move.Data); at += farPiece {
			r.pieces.Moved(c, r.move, c.Err)
		}
	}
}

// farPiece is the longest READ on a long path, in bytes.
const farPiece = 64 << 10

// pieces are the READs of a move that was cut.
type pieces struct {
	by    Mover
	whole Move
	left  int // READs that have not ended
	err   error
}

// Local implements Mover, as Moved does.
func (p *pieces) Local(c *Conn, m Move) (verbs.SGE, error) {
	s, err := p.by.Local(c, p.whole)
	s.Addr += m.Address - p.whole.Address
	s.Length = uint32(len(m.Data))
	return s, err
}

func (p *pieces) Moved(c *Conn, _ Move, err error) {
	if p.err == nil {
		p.err = err
	}
	if p.left--; p.left == 0 {
		p.by.Moved(c, p.whole, p.err)
	}
}

// MoveNow begins a move before all work that waits, if Movable allows it.
func (c *Conn) MoveNow(m Move) { c.postMove(&m) }

// farTrip is the round trip of a long path. Hosts that are busy take less to answer, at least once.
const farTrip = 5 * time.Millisecond

// Long reports whether the path to the peer is long: the connection took long to make, and every move was long
// under way. It is false before the first move has ended.
func (c *Conn) Long() bool { return c.moves.setup > farTrip && c.moves.path.Trip() > farTrip }

// Moving returns how many moves are in flight.
func (c *Conn) Moving() int { return c.moves.n }

// Movable reports whether another move may begin for an owner that wants few of them in flight on
// a short path.
func (c *Conn) Movable(few int) bool {
	m := &c.moves
	return m.n < few || m.n+max(c.slots.sent.n, fewFrames) < m.most && m.bytes < 6*m.path.Need()
}

func (c *Conn) postMove(m *Move) {
	if c.moves.n == MaxMoves && !c.moves.wide {
		c.moves.wide = true
		if err := c.e.widen(c, c.moves.most-MaxMoves); err != nil {
			c.Break(err)
		}
	}
	i := c.moves.begin(m)
	local, err := m.By.Local(c, *m)
	if err != nil {
		c.Break(err)
		return
	}
	c.sge[0] = local
	r := verbs.SendWR{Op: verbs.OpRead, SGL: c.sge[:], RemoteAddr: m.Address, RKey: m.Key}
	if m.Write {
		r.Op = verbs.OpWrite
	}
	if err := c.postBehind(c.id(workMove, i), &r); err != nil {
		c.Break(err)
	}
}

// moved takes the completion of a move.
func (c *Conn) moved(i int, err error) {
	if i >= len(c.moves.list) || c.moves.list[i].By == nil {
		return // Rescue has returned it
	}
	m := c.moves.end(i, err == nil)
	m.By.Moved(c, m, err)
}

// Rescue returns the moves in flight of a connection that has failed. They have no end any more.
func (c *Conn) Rescue() (list []Move) {
	for i, m := range c.moves.list {
		if m.By != nil {
			list = append(list, c.moves.end(i, false))
		}
	}
	return list
}

// Post posts a request of the owner's behind all frames. Owner.Done gets its completion, with the number i.
func (c *Conn) Post(i int, r *verbs.SendWR) error { return c.postBehind(c.id(workOther, i), r) }

// postBehind posts a request behind the frames that wait. Over iWARP the completion of a WRITE says that
// TCP has taken the bytes. A READ of no bytes follows if it has to say that they are in the peer's memory.
func (c *Conn) postBehind(id uint64, r *verbs.SendWR) error {
	if c.Flush(); c.broken != nil {
		return c.broken
	}
	r.WRID, r.Flags = id, r.Flags|verbs.Signaled
	if r.Op != verbs.OpWrite || !c.cfg.Placed || c.Rail.Dev.Protocol() != verbs.IWARP {
		return c.qp.PostSend(*r)
	}
	r.Flags &^= verbs.Signaled
	return c.qp.PostSend(*r, verbs.SendWR{WRID: id, Op: verbs.OpRead, Flags: verbs.Signaled})
}
