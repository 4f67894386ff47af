package rc

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// FuzzReceive feeds arbitrary packets to a queue pair in RTS that has requests of every kind
// outstanding. The queue pair must not panic, must change no unregistered memory, and must complete
// each work request once.
func FuzzReceive(f *testing.F) {
	seed := func(ps ...ib.Packet) {
		var all []byte
		for _, p := range ps {
			p.Pad = ib.PadLen(len(p.Payload))
			b := append(p.Append(nil), 0, 0, 0, 0)
			all = append(append(all, byte(len(b)>>8), byte(len(b))), b...)
		}
		f.Add(all)
	}
	seed(requestPacket(ib.RCSendOnly, 0, 8), requestPacket(ib.RCSendFirst, 1, testMTU), requestPacket(ib.RCSendLast, 2, 3))
	seed(ackPacket(ib.ACKNoCredits, testPSN0), ackPacket(ib.NAKSequence, testPSN0), ackPacket(ib.RNRNAK|3, testPSN0))
	h := ib.RETH{Addr: fuzzBase, RKey: fuzzKey, Length: testMTU + 9}
	seed(writePacket(ib.RCWriteFirst, 0, testMTU, h), requestPacket(ib.RCWriteLastImm, 1, 9))
	seed(writePacket(ib.RCReadRequest, 0, 0, h), writePacket(ib.RCReadRequest, 0, 0, h))
	atomic := requestPacket(ib.RCCompareSwap, 0, 0)
	atomic.AtomicETH = ib.AtomicETH{Addr: fuzzBase + 8, RKey: fuzzKey}
	seed(atomic, atomic)
	read := requestPacket(ib.RCReadResponseFirst, 1, testMTU)
	read.AETH.Syndrome = ib.ACKNoCredits
	seed(read)
	announced := func(p ib.Packet) ib.Packet {
		p.Selective = true
		return p
	}
	told := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSelectiveAck, PSN: testPSN0}}
	told.Payload = own.AppendRange(own.AppendRange(own.AppendDuplicates(nil, 3), 1, 2), 2, 1)
	seed(announced(requestPacket(ib.RCSendLast, 2, 3)), announced(requestPacket(ib.RCSendFirst, 1, testMTU)), announced(requestPacket(ib.RCSendOnly, 0, 8)))
	why := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReason, PSN: testPSN0}, AETH: ib.AETH{Syndrome: ib.NAKRemoteAccess}}
	why.Payload = (&own.Reason{Number: uint32(reason.KeyAccess), Expected: 2, Found: 1}).Append(nil)
	seed(announced(why), announced(ackPacket(ib.NAKRemoteAccess, testPSN0)))
	seed(announced(told), announced(read), announced(ackPacket(ib.ACKNoCredits, testPSN0)))
	seed(announced(writePacket(ib.RCReadRequest, 3, 0, h)), announced(writePacket(ib.RCReadRequest, 0, 0, h)), announced(writePacket(ib.RCReadRequest, 0, 0, h)))
	tells := ib.Packet{BTH: ib.BTH{Opcode: ib.RCTelemetry, PSN: testPSN0}}
	tells.Payload = (&own.Hop{Time: 1, Bytes: 2, Queue: 3, Rate: 4}).Append(own.AppendDuplicates(nil, 0))
	asks := announced(requestPacket(ib.RCSendOnly, 0, 8))
	asks.Telemetry = true
	seed(asks, announced(tells))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzReceive(t, data) })
}

// fuzzBase and fuzzKey name the registered memory in the fuzzer's packets. The key is replaced by
// the real one, which is random.
const (
	fuzzBase = 0x10000
	fuzzKey  = 0x12345678
	guard    = 1024
)

func fuzzReceive(t *testing.T, data []byte) {
	c := Config{Store: NewStore(DefaultStore)}
	if len(data)%4 == 0 {
		c.Control = congestion.HPCC // which takes telemetry
	}
	w := newPairWith(t, [2]Config{c, {Store: NewStore(DefaultStore)}}, nil)
	a := w.n[0]
	a.port.Attr.RQPSN = testPSN0
	whole := bytes.Repeat([]byte{0x5a}, guard+4096+guard)
	mr, err := a.port.Memory.Register(7, whole[guard:guard+4096:guard+4096], fuzzBase, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []qp.State{qp.Reset, qp.Init, qp.RTR, qp.RTS} {
		a.to(0, s)
	}
	list := []memory.SGE{{Addr: fuzzBase, Length: 700, LKey: mr.Key}}
	for i := range 3 {
		a.postRecv(uint64(i), memory.SGE{Addr: fuzzBase + 1000, Length: 300, LKey: mr.Key})
	}
	for _, op := range []queue.Op{queue.Write, queue.Read, queue.FetchAdd, queue.Send, queue.Read, queue.CompareSwap, queue.Write} {
		a.post(wqe{op: op, list: list})
	}
	source := bytes.Clone(a.mem)
	var out machine.Out
	next := func() {
		for i := 0; i < 1000 && a.q.Next(w.now, &out); i++ {
			if out.Opcode.Info() == nil || out.Len > testMTU && !out.Probe {
				t.Fatalf("sent %v with %d bytes", out.Opcode, out.Len)
			}
		}
	}
	next()
	for len(data) > 2 {
		n := min(int(data[0])<<8|int(data[1]), len(data)-2)
		in := machine.In{Src: testAddrs[1]}
		fault := in.Parse(data[2 : 2+n])
		data = data[2+n:]
		if fault != ib.OK {
			continue
		}
		if in.RETH.RKey == fuzzKey {
			in.RETH.RKey = mr.Key
		}
		if in.AtomicETH.RKey == fuzzKey {
			in.AtomicETH.RKey = mr.Key
		}
		if in.Telemetry {
			in.Hops = []own.Hop{{Time: uint64(w.now), Bytes: uint64(n), Queue: uint32(n), Rate: 8000}}
		}
		a.q.Receive(w.now, &in)
		if n&1 == 0 {
			next()
		}
		if d := a.q.Deadline(); n&2 == 0 && d != machine.Never {
			w.now = max(w.now, d) + time.Nanosecond
			a.q.Expire(w.now)
		}
	}
	a.to(w.now, qp.Err)
	next()
	for i, b := range whole {
		if (i < guard || i >= guard+4096) && b != 0x5a {
			t.Fatalf("byte %d outside of the region changed", i)
		}
	}
	if !bytes.Equal(source, a.mem) {
		t.Fatal("memory changed that no request names")
	}
	if len(a.send.list) != 7 || len(a.recv.list) != 3 {
		t.Fatalf("%d of 7 sends and %d of 3 receives completed", len(a.send.list), len(a.recv.list))
	}
	w.holdsNothing()
	for i, c := range a.send.list {
		if c.WRID != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, c.WRID)
		}
	}
}
