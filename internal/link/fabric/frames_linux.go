package fabric

import (
	"softrdma/internal/link"
)

// Frames is a Link to a port of an Ethernet fabric that carries whole frames, without check
// sequence: those of a host that has a network stack of its own. Of a port that has segments
// (hostport.Segments) it carries IP packets.
type Frames struct {
	*Link
	head Datagram // has the priority of a frame, and nothing else
	one  [1][]byte
}

// NewFrames returns the frames of the port to which a link is connected.
func NewFrames(l *Link) *Frames { return &Frames{Link: l} }

// MaxFrame is the length of the longest frame.
const MaxFrame = maxEthernet

// Send sends a frame of a priority. It fails without a fabric, and without room, see Room.
func (f *Frames) Send(priority uint8, frame []byte) error {
	if f.Closed() {
		return link.ErrClosed
	}
	f.head.TOS, f.one[0] = priority<<priorityShift, frame
	err := f.put(&f.head, len(frame), f.one[:], len(frame))
	f.one[0] = nil
	return err
}

// Receive copies the next frame to b, of at least MaxFrame bytes. It returns its length, 0 if there
// is none. It never waits.
func (f *Frames) Receive(b []byte) (n int, err error) {
	if f.Closed() {
		return 0, link.ErrClosed
	}
	f.mu.Lock()
	n, fault := f.single(b)
	f.mu.Unlock()
	f.judge(fault)
	return n, nil
}
