package machine

import (
	"time"

	"softrdma/internal/trace"
)

// Deliver gives the machine of a queue pair a packet, and counts it and the payload that the machine takes.
func Deliver(t *trace.Traffic, p *Port, now time.Duration, m Receiver, in *In) {
	n, packets := len(in.Payload), max(in.Train, 1)
	in.Dropped = 0
	m.Receive(now, in)
	t.ReceivedPackets += uint64(packets)
	p.took(t, n-in.Dropped) // more than n if packets were taken that were held
}

// Continued counts a packet that the machine of a queue pair has continued with.
func Continued(t *trace.Traffic, p *Port, in *In) {
	t.ReceivedPackets++
	p.took(t, len(in.Payload)-in.Dropped)
}

// Took counts payload of a stream of bytes that the queue pair's machine has taken.
func (p *Port) Took(n int) {
	if t := p.Traffic; t != nil {
		p.took(t, n)
	}
}

func (p *Port) took(t *trace.Traffic, n int) {
	t.Received += uint64(n)
	p.Received += uint64(n)
}

// Drop notes that nothing of the payload is taken.
func (in *In) Drop() { in.Dropped = len(in.Payload) }

// TookPart notes that a part of the packet, or a packet that was held until now, was given to the
// machine.
func (in *In) TookPart(part *In) { in.Dropped -= len(part.Payload) - part.Dropped }
