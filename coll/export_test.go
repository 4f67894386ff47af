package coll

import "softrdma/msg"

// IsMapped reports whether the members of the group read each other's memory.
func (g *Group) IsMapped() bool { return g.mapping != nil }

// ShareWith makes the member register slabs with another worker.
func (g *Group) ShareWith(w *msg.Worker) { g.mesh.pool.worker = w }

// MappedRound is the most bytes of one round.
const MappedRound = mappedRound
