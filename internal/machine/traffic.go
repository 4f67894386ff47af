package machine

import "time"

// Traffic counts the bytes of payload in packets, without headers, checksums and padding: those
// sent, repeated ones included, and those received, without the requests that a machine has had
// before.
type Traffic struct{ Sent, Received uint64 }

// Add adds the counts of u.
func (t *Traffic) Add(u Traffic) {
	t.Sent += u.Sent
	t.Received += u.Received
}

// Receive gives a machine a packet and counts its payload.
func (t *Traffic) Receive(now time.Duration, m Receiver, in *In) {
	n := uint64(len(in.Payload))
	in.Repeated = false
	m.Receive(now, in)
	if !in.Repeated {
		t.Received += n
	}
}
