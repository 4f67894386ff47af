package rdmanet

import (
	"softrdma/internal/reason"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// A message is the immediate data of a WRITE. Few iWARP adapters support that, so
// on iWARP it is the four-byte payload of a SEND after the WRITE (rsockets'
// RS_OPT_MSG_SEND). This file holds the differences between the two.

// receiveCount is the number of posted receives.
const receiveCount = credits + spareRecvs

// noReceives are receives without memory.
var noReceives = make([]verbs.RecvWR, receiveCount)

// words returns how many bytes of memory received messages need.
func (e *endpoint) words() int {
	if e.sends {
		return receiveCount * rsocket.MessageLen
	}
	return 0
}

// receives returns the receives to post, in turn.
func (e *endpoint) receives() []verbs.RecvWR {
	if !e.sends {
		return noReceives
	}
	list, sges := make([]verbs.RecvWR, receiveCount), make([]verbs.SGE, receiveCount)
	for i := range list {
		sges[i] = e.store.wordsMR.SGE(i*rsocket.MessageLen, rsocket.MessageLen)
		list[i] = verbs.RecvWR{WRID: workRecv | uint64(i)<<8, SGL: sges[i : i+1]}
	}
	return list
}

// postMessage posts a message, together with the write that the request in wr describes,
// if any. It reports whether it could post.
func (e *endpoint) postMessage(m rsocket.Message) bool {
	w := &e.wr[0]
	if !e.sends {
		w.Op, w.Imm = verbs.OpWriteImm, uint32(m)
		return e.send(1)
	}
	m.Put(e.word[:])
	message := verbs.SendWR{WRID: w.WRID, Op: verbs.OpSend, Flags: w.Flags, Inline: e.word[:]}
	if len(w.SGL) == 0 && len(w.Inline) == 0 {
		*w = message
		return e.send(1)
	}
	w.WRID, w.Op = workWrite, verbs.OpWrite
	e.wr[1] = message
	return e.send(2)
}

// messageOf returns the message of a completion. n is the number of bytes written
// before it, 0 if that is not known.
func (e *endpoint) messageOf(wc *verbs.WC) (m rsocket.Message, n uint32, err error) {
	switch {
	case !e.sends && wc.Op == verbs.WCRecvRDMAImm && wc.Flags&verbs.WCWithImm != 0:
		return rsocket.Message(wc.Imm), wc.ByteLen, nil
	case e.sends && wc.Op == verbs.WCRecv && wc.ByteLen == rsocket.MessageLen:
		m = rsocket.ParseMessage(e.store.words[wc.WRID>>8*rsocket.MessageLen:])
		return m, e.writtenBefore(m), nil
	}
	return 0, 0, &rsocket.Fault{Detail: reason.Detail{Reason: reason.SocketMessage, Found: uint64(wc.Op)}}
}

// writtenBefore returns how many bytes the peer wrote before a message that came as a
// SEND. For OpIomap it is always one entry. For OpCredits it is one entry if the
// target table holds a complete one. All targets of a peer have the length of its
// first one, or that doubled some times, so an entry that has arrived only in part is not
// mistaken for a complete one: none of these is the lower bytes of another.
func (e *endpoint) writtenBefore(m rsocket.Message) uint32 {
	switch m.Op() {
	case rsocket.OpIomap:
		return rsocket.IomapLen
	case rsocket.OpCredits:
		if t := rsocket.ParseTarget(e.target()); rsocket.Doubled(e.peerHalf, t.Length) && t.Addr != 0 && t.Key != 0 {
			return rsocket.SGELen
		}
	}
	return 0
}

// target returns the entry of the target table that the peer writes next.
func (e *endpoint) target() []byte {
	return e.store.table[e.tx.NextTarget()*rsocket.SGELen:][:rsocket.SGELen]
}
