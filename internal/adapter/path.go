package adapter

// A Path is how the packets of a connection reach its peer. A daemon tells its clients the number.
type Path uint8

// The paths.
const (
	PathNone        Path = iota // not connected, or datagrams
	PathNetwork                 // frames, or a stream
	PathSameHost                // memory that is shared with another process
	PathSameProcess             // handed over to a device of this process
)

// Path returns how the connection's packets reach its peer now.
func (q *QP) Path() Path {
	q.lane.Lock()
	defer q.lane.Unlock()
	switch {
	case q.lane.net == nil:
		return PathNetwork
	case q.flow == nil:
		return PathNone
	case q.lane.localLane(q.flow, q.Attr.DestQPN) != nil:
		return PathSameProcess
	case q.hostPath() != nil:
		return PathSameHost
	}
	return PathNetwork
}
