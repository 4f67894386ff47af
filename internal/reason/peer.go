package reason

import "fmt"

// Outward returns what the peer may be told of a refusal. The numbers of a refused request, of memory
// or of a connection, are those of the request and of what it asked for. Other numbers are this side's
// own, of which a key would give the peer access: it is only told the name. What a requester counted
// and got from the peer itself, it may know.
func (d Detail) Outward() Detail {
	switch d.Reason {
	case RetryExceeded, RNRRetryExceeded, NAKInvalidRequest, NAKRemoteAccess, NAKRemoteOperational, NAKReserved, NeverAnswered, PeerSilent:
		return d
	}
	if room := d.Reason / roomSize; room == connectionsRoom || room == responderRoom && d.Reason != ReceiveLocalKey {
		return d
	}
	return Detail{Reason: d.Reason}
}

// Sides returns the sentence of this side's reason with its name, and behind it what the peer
// says, unless the peer says nothing.
func Sides(own, peer Detail) string {
	return fmt.Sprintf("%v: %v%s", own.Reason, own, peer.AfterOwn())
}

// AfterOwn returns what the peer says, as it continues a sentence about this side, or "" if the peer
// says nothing.
func (d Detail) AfterOwn() string {
	if d.Reason == None {
		return ""
	}
	return "; the peer says: " + d.Said()
}

// Said returns a peer's reason with its name. A later version may have reasons that this one does
// not know, and numbers that were kept in are 0.
func (d Detail) Said() string {
	switch {
	case !d.Reason.Known() || d.Reason == None:
		return fmt.Sprintf("%v, which this version does not know: expected %d, found %d", d.Reason, d.Expected, d.Found)
	case d.Expected == 0 && d.Found == 0:
		return fmt.Sprintf("%v: %s", d.Reason, d.Reason.Sentence())
	}
	return fmt.Sprintf("%v: %v", d.Reason, d)
}
