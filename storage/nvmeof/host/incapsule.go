package host

import (
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/verbs"
)

// pathEvery is the number of batches of which one looks at the path to the controller, which seldom
// changes.
const pathEvery = 64

// A trains says whether capsules of several packets cost more than the controller's RDMA READ. Over
// UDP the packets of many messages leave in one datagram train if they have one length, as those of
// READs do. A capsule whose last packet is shorter than the others ends a train. Through memory and
// over iWARP there are no trains.
type trains struct {
	batches int
	packet  int // bytes of data that fit in a capsule of one packet; 0 if any number of packets is fine
}

// look looks at the path of a queue pair, now and then.
func (t *trains) look(q *verbs.QP) {
	if t.batches++; t.batches%pathEvery != 1 {
		return
	}
	t.packet = 0
	if q.Device().Protocol() == verbs.RoCE && q.Path() == verbs.PathNetwork {
		t.packet = max(q.Query().PathMTU-capsule.CommandLen, 0)
	}
}

// inCapsule returns how many bytes of data the capsule of a command may have that is sent now. One
// that is sent by itself may have as many as the controller takes, because a READ would take another
// round trip.
func (q *queue) inCapsule() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gathers && q.packet > 0 {
		return min(q.capsule, q.packet)
	}
	return q.capsule
}
