package simulate

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/simulate/hosts"
)

// A group is connections that carry a message together. Their hosts report at the same time, so what
// follows is with the mutex of the run.
type group struct {
	r      *run
	index  int // of the message that stands for the whole
	conns  []*hosts.Conn
	left   int      // connections that have not sent all their parts
	end    dcb.Time // of the last connection, or of the first one that failed
	broken bool
}

// connect adds a connection.
func (g *group) connect(now dcb.Time, traffic, from, to int) *hosts.Conn {
	c := g.r.connect(now, traffic, from, to, ringDepth)
	g.conns = append(g.conns, c)
	g.left++
	return c
}

// finished closes a connection that has sent all its parts. The message ends with the last one.
func (g *group) finished(now dcb.Time, c *hosts.Conn) {
	c.Close(now)
	if g.count(now) {
		g.r.ended(g.index, g.end)
	}
}

func (g *group) count(now dcb.Time) (last bool) {
	g.r.mutex.Lock()
	defer g.r.mutex.Unlock()
	if g.broken {
		return false
	}
	g.left, g.end = g.left-1, max(g.end, now)
	return g.left == 0
}

// fails closes a connection that has failed. The others are closed with the next sample.
func (g *group) fails(now dcb.Time, c *hosts.Conn) {
	c.Close(now)
	g.r.mutex.Lock()
	defer g.r.mutex.Unlock()
	if g.broken {
		g.end = min(g.end, now)
		return
	}
	g.broken, g.end = true, now
	g.r.broken = append(g.r.broken, g)
}

// closeBroken closes the groups that have failed. It is called between two steps.
func (r *run) closeBroken(now dcb.Time) {
	for _, g := range r.broken {
		r.ends(g.end)
		for _, c := range g.conns {
			c.Close(now)
		}
	}
	r.broken = r.broken[:0]
}
