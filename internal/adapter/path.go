package adapter

import "softrdma/internal/object"

// Path returns how the connection's packets reach its peer now.
func (q *QP) Path() object.Path {
	q.lane.Lock()
	defer q.lane.Unlock()
	switch {
	case q.packets == nil:
		return object.PathNetwork
	case q.flow == nil:
		return object.PathNone
	}
	return q.route().Path()
}
