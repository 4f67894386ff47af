package rdmanet

import (
	"softrdma/internal/reason"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// How a message travels: as the immediate data of a WRITE, and on iWARP, where
// few have that, as four bytes of a SEND behind the WRITE (rsockets'
// RS_OPT_MSG_SEND). What differs between the two is here.

// receiveCount is how many receives there are.
const receiveCount = credits + spareRecvs

// noReceives are receives of nothing.
var noReceives = make([]verbs.RecvWR, receiveCount)

// words is how much memory the messages need that are received.
func (c *Conn) words() int {
	if c.sends {
		return receiveCount * rsocket.MessageLen
	}
	return 0
}

// receives are all receives, to be posted in turn.
func (c *Conn) receives() []verbs.RecvWR {
	if !c.sends {
		return noReceives
	}
	list, sges := make([]verbs.RecvWR, receiveCount), make([]verbs.SGE, receiveCount)
	for i := range list {
		sges[i] = c.store.wordsMR.SGE(i*rsocket.MessageLen, rsocket.MessageLen)
		list[i] = verbs.RecvWR{WRID: workRecv | uint64(i)<<8, SGL: sges[i : i+1]}
	}
	return list
}

// tell posts a message, with what the request in wr writes before it if it
// writes anything, and reports whether it did.
func (c *Conn) tell(m rsocket.Message) bool {
	w := &c.wr[0]
	if !c.sends {
		w.Op, w.Imm = verbs.OpWriteImm, uint32(m)
		return c.send(1)
	}
	m.Put(c.word[:])
	message := verbs.SendWR{WRID: w.WRID, Op: verbs.OpSend, Inline: c.word[:]}
	if len(w.SGL) == 0 && len(w.Inline) == 0 {
		*w = message
		return c.send(1)
	}
	w.WRID, w.Op = workWrite, verbs.OpWrite
	c.wr[1] = message
	return c.send(2)
}

// heard is the message of a completion. n is how many bytes were written before
// it, where that can be known.
func (c *Conn) heard(wc *verbs.WC) (m rsocket.Message, n uint32, err error) {
	switch {
	case !c.sends && wc.Op == verbs.WCRecvRDMAImm && wc.Flags&verbs.WCWithImm != 0:
		return rsocket.Message(wc.Imm), wc.ByteLen, nil
	case c.sends && wc.Op == verbs.WCRecv && wc.ByteLen == rsocket.MessageLen:
		m = rsocket.ParseMessage(c.store.words[wc.WRID>>8*rsocket.MessageLen:])
		return m, c.written(m), nil
	}
	return 0, 0, &rsocket.Fault{Detail: reason.Detail{Reason: reason.SocketMessage, Found: uint64(wc.Op)}}
}

// written is how many bytes came before a message that was sent: of an entry of
// the table of mapped memory always, of a target where it stands there. All
// targets of a peer are as long as its first, so that one of which a part came
// so far, before a message of its own, is not taken for a whole.
func (c *Conn) written(m rsocket.Message) uint32 {
	switch m.Op() {
	case rsocket.OpIomap:
		return rsocket.IomapLen
	case rsocket.OpCredits:
		if e := rsocket.ParseTarget(c.target()); e.Length == c.peerHalf && e.Addr != 0 && e.Key != 0 {
			return rsocket.SGELen
		}
	}
	return 0
}

// target is the entry of the target table that the peer writes next.
func (c *Conn) target() []byte {
	return c.store.table[c.tx.NextTarget()*rsocket.SGELen:][:rsocket.SGELen]
}
