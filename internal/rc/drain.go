package rc

// drain ends the draining of the send queue when every message that was started has
// completed (IBTA 10.3.1.5). In SQD admit starts no other message. Drained raises the event.
func (r *unacked) drain() {
	if r.p.Attr.SQDraining && (r.sq.Idle() || r.requests[r.sq.Head].state&(started|done|failed) == 0) {
		r.p.Drained()
	}
}
