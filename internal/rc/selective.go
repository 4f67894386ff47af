package rc

import (
	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/wire/ib"
)

// learnPeer learns from the peer's packets. A peer that does not announce anything in its
// first answer is taken for a standard one, and sees no reserved bit again.
func (q *QP) learnPeer(in *machine.In, info *ib.Info) {
	switch {
	case q.store == nil || q.c.Peer == conn.Selective:
	case in.Selective:
		q.c.Peer = conn.Selective
	case q.c.Peer == conn.Unknown && isAnswer(info.Kind):
		q.c.Peer = conn.Standard
		q.keepWindow()
	}
}

// announces reports whether packets announce that this end understands selective
// acknowledges.
func (q *QP) announces() bool { return q.store != nil && q.c.Peer != conn.Standard }
