package machine

import "time"

// Traffic counts the bytes of payload in packets, without headers, checksums and padding: those
// sent, repeated ones included, and those that a machine took. A machine does not take a packet that
// it has had before, and not one that the peer has to send again.
type Traffic struct{ Sent, Received uint64 }

// Add adds the counts of u.
func (t *Traffic) Add(u Traffic) {
	t.Sent += u.Sent
	t.Received += u.Received
}

// Receive gives a machine a packet and counts the payload that it takes.
func (t *Traffic) Receive(now time.Duration, m Receiver, in *In) {
	n := len(in.Payload)
	in.Dropped = 0
	m.Receive(now, in)
	t.Received += uint64(n - in.Dropped) // more than n if packets were taken that were held
}

// Continued counts the payload of a packet that a machine has continued with.
func (t *Traffic) Continued(in *In) { t.Received += uint64(len(in.Payload) - in.Dropped) }

// Drop notes that nothing of the payload is taken.
func (in *In) Drop() { in.Dropped = len(in.Payload) }

// TookPart notes that a part of the packet, or a packet that was held until now, was given to the
// machine.
func (in *In) TookPart(part *In) { in.Dropped -= len(part.Payload) - part.Dropped }
