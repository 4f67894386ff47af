package lan

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/wire/ethernet"
)

// A Load is test traffic: datagrams of one size from a host to another one. The network itself sends them
// and takes them, beside what the hosts send.
type Load struct {
	From, To   int // nodes
	Priority   uint8
	SourcePort uint16 // of UDP, by which switches choose among paths
	Size       int    // bytes of the datagram's payload
	Packets    int
	Every      dcb.Time // between two packets; 0 sends as fast as the host's queue takes them
}

// A LoadState is a load with the packets that were sent and that have arrived.
type LoadState struct {
	Load
	Sent, Arrived int
}

type load struct {
	LoadState
	number uint32
	over   bool
}

// loadMark is in the upper half of the cookie of a load's frames, whose lower half has the load's number.
const loadMark = 0x10ad

// LoadHeaders is the length of the headers in front of a load's payload, and of the check sequence behind it.
const LoadHeaders = ethernet.HeaderLen + 20 + 8 + ethernet.CheckLen

// Generate starts a load.
func (x *Extras) Generate(now dcb.Time, l Load) {
	x.part.advance(now)
	k := &load{LoadState: LoadState{Load: l}, number: x.first + uint32(len(x.loads))}
	x.loads = append(x.loads, k)
	x.feed(k)
}

// Loads returns all loads since StopLoads.
func (x *Extras) Loads() (list []LoadState) {
	for _, l := range x.loads {
		list = append(list, l.LoadState)
	}
	return list
}

// StopLoads ends all loads and forgets them.
func (x *Extras) StopLoads() {
	for _, l := range x.loads {
		l.over = true
	}
	x.first += uint32(len(x.loads))
	x.loads = nil
}

// feed sends the packets of a load that are due. With Every that is one.
func (x *Extras) feed(l *load) {
	n := x.net
	for l.Sent < l.Packets && !l.over {
		if !n.nodes[l.From].host.Room(l.Priority) {
			x.waiting[l.From] = append(x.waiting[l.From], l)
			return
		}
		f := x.part.pool.Frame()
		n.Address(f, l.From, l.To, l.SourcePort)
		f.Priority, f.DSCP, f.ECN = l.Priority, l.Priority<<3, dcb.ECT0
		f.Len = int32(max(LoadHeaders+l.Size, dcb.MinFrame))
		f.Cookie = loadMark<<32 | uint64(l.number)
		n.nodes[l.From].host.Send(x.part.now, f)
		if l.Sent++; l.Every > 0 {
			if l.Sent < l.Packets {
				x.later(x.part.now+l.Every, func() { x.feed(l) })
			}
			return
		}
	}
}

// isLoad reports whether a frame is of a load.
func isLoad(f *dcb.Frame) bool { return f.Cookie>>32 == loadMark }

// arrived counts a frame of a load. One of a load that was forgotten meanwhile counts nowhere.
func (x *Extras) arrived(f *dcb.Frame) {
	if i := uint32(f.Cookie) - x.first; i < uint32(len(x.loads)) {
		x.loads[i].Arrived++
	}
	x.part.pool.Put(f)
}

// resume continues the loads of a host whose queue has room again.
func (x *Extras) resume(host int) {
	waiting := x.waiting[host]
	if len(waiting) == 0 {
		return
	}
	x.waiting[host] = nil
	for _, l := range waiting {
		x.feed(l)
	}
}
