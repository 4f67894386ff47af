package adapter

import "softrdma/internal/object"

// Path returns how the connection's packets reach its peer now.
func (q *QP) Path() object.Path {
	q.lane.Lock()
	defer q.lane.Unlock()
	switch {
	case q.lane.net == nil:
		return object.PathNetwork
	case q.flow == nil:
		return object.PathNone
	case q.lane.localLane(q.flow, q.Attr.DestQPN) != nil:
		return object.PathSameProcess
	case q.hostPath() != nil:
		return object.PathSameHost
	}
	return object.PathNetwork
}
