package ud

import (
	"bytes"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// FuzzSend posts a request with fields chosen by a hostile driver.
func FuzzSend(f *testing.F) {
	f.Add(uint32(2), uint32(3), uint32(100), uint32(3), []byte{2, 0, 0, 0, 1, 2, 3, 4}, uint64(0), uint32(100))
	f.Add(uint32(3), uint32(8), uint32(1<<31), uint32(0), []byte{10, 0, 0, 0, 1, 2, 3, 4}, ^uint64(0), uint32(1))
	f.Fuzz(func(t *testing.T, o, flags, length, ah uint32, av []byte, off uint64, n uint32) {
		a := newEnd(t, 1)
		e := memory.SGE{Addr: a.src.Base + off, Length: n, LKey: a.src.Key}
		a.PostSend(func(w *queue.SendWQE) {
			w.Op, w.Flags, w.Length = queue.Op(o), queue.Flags(flags), length
			w.UD().AHNum = ah
			copy(w.UD().AV.DGID[:], av)
		}, e)
		var out machine.Out
		if a.m.Next(0, &out) {
			if b := bytes.Join(out.Pieces, nil); len(b) != int(length) || length > 1024 || out.Path == nil {
				t.Fatalf("packet of %d bytes, requested %d, path %v", len(b), length, out.Path)
			}
		} else if a.Attr.State != qp.SQE {
			t.Fatalf("neither a packet nor an error: state %v", a.Attr.State)
		}
	})
}

// FuzzReceive delivers any datagram that can be parsed.
func FuzzReceive(f *testing.F) {
	f.Add(append([]byte{0x64, 0, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, 0x11, 0x11, 0x11, 0x11}, make([]byte, 40)...), uint16(100))
	f.Fuzz(func(t *testing.T, b []byte, room uint16) {
		in := &machine.In{Src: machinetest.AddrA, Dst: machinetest.AddrB}
		if in.Parse(b) != ib.OK || in.Opcode.Transport() != ib.UD {
			return
		}
		e := newEnd(t, 2)
		e.PostRecv(1, machinetest.SGE(e.dst, 100, int(room%2000)))
		e.m.Receive(0, in)
		l := e.Received.Take()
		fits := in.DETH.QKey == qkey && len(in.Payload) <= 1024 && 40+len(in.Payload) <= int(room%2000)
		if (len(l) == 1) != fits || (len(e.Refused) == 0) != fits {
			t.Fatalf("fits is %v: completions %+v, refusals %v", fits, l, e.Refused)
		}
		for i, x := range e.dstB {
			if x != 0 && (i < 100 || i >= 100+int(room%2000)) {
				t.Fatalf("byte %d was written", i)
			}
		}
	})
}
