package rdmanet

import "softrdma/verbs"

// On iWARP a WRITE or SEND completes when this host's TCP has it, and nothing says that
// it has arrived. A READ behind it does: the peer's device answers it after it has placed
// what came before (RFC 5040 5.5), without the peer's program. So a READ of no bytes goes
// before the message that ends this side's direction, and that message waits for its
// answer. The other order would not do: a peer may disconnect as soon as it has the
// message, and then its device answers no more.
//
// A peer proves nothing that has not said that it answers such READs (rsocket.FlagProof), as
// librdmacm's rsockets. Those that have made the connection serve no READs. Those that have
// accepted it would, but Linux's siw answers a READ of no bytes with the length and the key of
// its own last request if it is sending something at that time. If that request was inline, it
// ends the connection instead (remote protection).

// proofKey is the remote key of that READ. It names no memory, because a key of no bytes
// is not checked. Some adapters have a use of their own for 0.
const proofKey = 1

// tookData counts a data message that was posted.
func (e *endpoint) tookData() {
	e.posted++
	e.unproven = e.proves
}

// prove posts the READ if there is something to prove, and reports whether the next
// message must wait for it.
func (e *endpoint) prove() bool {
	if !e.unproven {
		return false
	}
	e.wr[0] = verbs.SendWR{WRID: workProof, Op: verbs.OpRead, RKey: proofKey}
	if e.send(1) {
		e.lasts++
	}
	return true
}

// unacknowledged reports whether the peer's device may not have received all written data.
func (e *endpoint) unacknowledged() bool { return e.posted > 0 || e.unproven }
