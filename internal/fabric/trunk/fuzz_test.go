package trunk

import (
	"testing"
	"time"
)

// FuzzReceive gives an end any packets: some as they are, some with the header and the
// acknowledgement of the present session, so that their content reaches the stream.
func FuzzReceive(f *testing.F) {
	w := newWorld(&testing.T{}, 1)
	for range 20 {
		for _, j := range w.jacks {
			if b := j.trunk.Next(w.now); b != nil {
				f.Add(append([]byte{0}, b...))
			}
		}
		w.run(time.Millisecond)
	}
	f.Add(append([]byte{1}, appendLink(nil, 2, &supported)...))
	f.Add(append([]byte{1}, appendState(nil, 1, &PortState{Polls: true})...))
	f.Add(append([]byte{1}, appendMessage(nil, linkDown, 0, 1)...))
	f.Add(append([]byte{2}, appendGUIDs(nil, []uint64{1})...))
	f.Fuzz(func(t *testing.T, script []byte) {
		w := newWorld(t, 1)
		w.run(10 * time.Millisecond)
		for _, j := range w.jacks {
			j.fuzzed = true
		}
		for len(script) > 1 {
			n := min(len(script)-1, 1+int(script[0])<<3&0x7ff)
			mode, b := script[0], script[1:1+n]
			script = script[1+n:]
			j := w.jacks[mode>>1&1]
			if s := j.trunk.session; mode&1 != 0 && s != nil {
				p := make([]byte, dataLen, dataLen+len(b))
				(&header{version: Version, kind: data, source: s.peer, dest: j.trunk.own}).put(p)
				(&ack{number: s.receiver.awaited, awaited: s.sender.first}).put(p)
				b = append(p, b...)
			}
			j.trunk.Receive(w.now, b[:min(len(b), MaxPacket+1)])
			w.flush()
		}
		w.run(time.Minute)
		if !w.up() {
			t.Error("the link does not come back")
		}
	})
}
