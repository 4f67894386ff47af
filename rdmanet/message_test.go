package rdmanet

import (
	"encoding/binary"
	"testing"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// On iWARP a message does not say what was written before it, and an entry of a
// later message may have arrived in part.
func TestTargetIsUsedOnlyWhenComplete(t *testing.T) {
	const length = 0x12345
	c := &endpoint{dialect: dialect{sends: true, peerHalf: length}, objects: objects{store: &storage{table: make([]byte, tableLen(0)), words: make([]byte, rsocket.MessageLen)}}}
	c.tx.Start(&rsocket.ConnData{})
	rsocket.NewMessage(rsocket.OpCredits, 9).Put(c.store.words)
	wc := &verbs.WC{WRID: workRecv, Op: verbs.WCRecv, ByteLen: rsocket.MessageLen}
	var entry [rsocket.SGELen]byte
	binary.LittleEndian.PutUint64(entry[:], 0x1122334455667788)
	binary.LittleEndian.PutUint32(entry[8:], 0x99aabbcc)
	binary.LittleEndian.PutUint32(entry[12:], length)
	for n := range len(entry) + 1 {
		copy(c.target(), entry[:n])
		want := uint32(0)
		if n >= rsocket.SGELen-1 { // the last byte of the length is 0
			want = rsocket.SGELen
		}
		if m, written, err := c.messageOf(wc); err != nil || m.Op() != rsocket.OpCredits || m.Data() != 9 || written != want {
			t.Errorf("%d bytes of the entry: %v, %d bytes written, %v; expected %d", n, m, written, err, want)
		}
	}
}

func TestMessageOfAnotherKindIsRefused(t *testing.T) {
	for _, c := range []struct {
		sends bool
		wc    verbs.WC
	}{
		{true, verbs.WC{Op: verbs.WCRecvRDMAImm, Flags: verbs.WCWithImm}},
		{true, verbs.WC{Op: verbs.WCRecv, ByteLen: 3}},
		{false, verbs.WC{Op: verbs.WCRecv, ByteLen: rsocket.MessageLen}},
	} {
		conn := &endpoint{dialect: dialect{sends: c.sends}}
		if _, _, err := conn.messageOf(&c.wc); err == nil {
			t.Errorf("sends %v: %+v was taken", c.sends, c.wc)
		}
	}
}
