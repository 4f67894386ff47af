package msg

import "softrdma/msg/internal/format"

// repair connects a rail again in a goroutine, until it works or the group ends. The caller holds the lock.
func (g *group) repair(rail int) {
	if g.to == nil || !g.repairable(rail) || !g.repairs[rail].Begin() {
		return
	}
	w := g.c.w
	w.running.Go(func() {
		for g.attempt(rail) {
		}
	})
}

// repairable reports whether a rail can be connected again. A device that has closed does not come back.
func (g *group) repairable(rail int) bool {
	w := g.c.w
	return g.c.err == nil && !w.closed && !g.rails.Up(rail) && !w.rails[g.pairs[rail].Own].on.Gone.Load()
}

// attempt waits and tries to connect a rail. It reports whether another attempt is needed. Each has a number
// of its own: the peer may have made a connection that this end has given up.
func (g *group) attempt(rail int) bool {
	w, r := g.c.w, &g.repairs[rail]
	r.Wait(g.context)
	w.e.Lock()
	j := format.Joining{Token: g.token, Rail: rail, Connection: g.rails.Failed(rail) + 1, Pairs: g.pairs}
	needed := g.repairable(rail)
	w.unlock()
	var err error
	if needed {
		_, err = w.connectRail(g.context, g.to, &j)
	}
	w.e.Lock()
	defer w.unlock()
	if err != nil {
		g.rails.Fail(rail, j.Connection)
		w.e.Flush()
	}
	return r.Settle(needed && err == nil, g.repairable(rail))
}

// RailCounts returns how many connections of the endpoint's rails have failed, and how many were made
// again. Rails returns which work now.
func (e *Endpoint) RailCounts() (failed, restored uint64) {
	e.c.w.e.Lock()
	defer e.c.w.e.Unlock()
	if g := e.c.group; g != nil {
		failed, restored = g.failures, g.restored
	}
	return failed, restored
}
