package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/wire/ib"
)

// A peer is what is known of the other end: whether it is softrdma, whose packets
// announce that it knows selective acknowledges.
type peer uint8

const (
	unknown peer = iota
	standard
	selective
)

// learnPeer learns from the peer's packets. A peer that does not announce anything in its
// first answer is taken for a standard one, and sees no reserved bit again.
func (q *QP) learnPeer(in *machine.In, info *ib.Info) {
	switch {
	case q.store == nil || q.peer == selective:
	case in.Selective:
		q.peer = selective
	case q.peer == unknown && isAnswer(info.Kind):
		q.peer = standard
	}
}

// selective reports whether both ends know selective acknowledges.
func (q *QP) selective() bool { return q.peer == selective }

// announces reports whether packets announce that this end does.
func (q *QP) announces() bool { return q.store != nil && q.peer != standard }
