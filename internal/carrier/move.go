package carrier

import (
	"slices"

	"softrdma/verbs"
)

// Move begins a READ or WRITE. Frames and moves that begin later are posted behind it.
func (c *Conn) Move(m Move) { c.add(work{move: m}) }

// MoveNow begins a move before all work that waits. Fewer than MaxMoves are in flight.
func (c *Conn) MoveNow(m Move) { c.postMove(&m) }

// Moving returns how many moves are in flight.
func (c *Conn) Moving() int { return c.moving }

func (c *Conn) postMove(m *Move) {
	i := slices.IndexFunc(c.moves[:], func(m Move) bool { return m.By == nil })
	c.moves[i] = *m
	c.moving++
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
	m := c.moves[i]
	if m.By == nil {
		return // Rescue has returned it
	}
	c.moves[i] = Move{}
	c.moving--
	m.By.Moved(c, m, err)
}

// Rescue returns the moves in flight of a connection that has failed. They have no end any more.
func (c *Conn) Rescue() (list []Move) {
	for i, m := range c.moves {
		if m.By != nil {
			list = append(list, m)
			c.moves[i] = Move{}
		}
	}
	c.moving = 0
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
