package machine

import (
	"time"

	"softrdma/internal/trace"
)

// Deliver gives a machine a packet, and counts it and the payload that the machine takes.
func Deliver(t *trace.Traffic, now time.Duration, m Receiver, in *In) {
	n, packets := len(in.Payload), max(in.Train, 1)
	in.Dropped = 0
	m.Receive(now, in)
	t.ReceivedPackets += uint64(packets)
	t.Received += uint64(n - in.Dropped) // more than n if packets were taken that were held
}

// Continued counts a packet that a machine has continued with.
func Continued(t *trace.Traffic, in *In) {
	t.ReceivedPackets++
	t.Received += uint64(len(in.Payload) - in.Dropped)
}

// Drop notes that nothing of the payload is taken.
func (in *In) Drop() { in.Dropped = len(in.Payload) }

// TookPart notes that a part of the packet, or a packet that was held until now, was given to the
// machine.
func (in *In) TookPart(part *In) { in.Dropped -= len(part.Payload) - part.Dropped }
