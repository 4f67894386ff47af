package verbs_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/verbs"
)

// Messages of every length around packet boundaries arrive complete, by every operation, over
// both families, at every path MTU.
func TestMessageOfEveryLengthArrives(t *testing.T) {
	for i, family := range []struct{ name, a, b string }{
		{"IPv4", "127.7.2.1", "127.7.2.2"},
		{"IPv6", "[::1]:4800", "[::1]:4801"},
	} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
			for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
				t.Run(fmt.Sprintf("%s %v %d", family.name, typ, mtu), func(t *testing.T) {
					e := ends{a: family.a, b: family.b, qp: verbs.QPConfig{Type: typ, MaxInline: 64}, connect: verbs.ConnectConfig{PathMTU: mtu}}
					a, b := e.pair(t)
					if q := a.qp.Query(); q.PathMTU != mtu {
						t.Fatalf("path MTU %d", q.PathMTU)
					}
					lengths := []int{0, 1, 2, 3, 4, 5, 63, 64, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 3*mtu + 5, 9 * mtu}
					for _, n := range lengths {
						everyOperation(t, a, b, n, uint64(i*100000+n))
					}
				})
			}
		}
	}
}

// everyOperation carries n bytes from a to b, and back by READ.
func everyOperation(t *testing.T, a, b *side, n int, seed uint64) {
	const off = 8
	a.see()
	b.see()
	fill(a.buf[off:off+n], seed)
	want := bytes.Clone(a.buf[off : off+n])
	ops := []verbs.Op{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm}
	if a.qp.Type() == verbs.RC {
		ops = append(ops, verbs.OpRead)
	}
	for _, inline := range []bool{false, true} {
		for _, op := range ops {
			if inline && (n > 64 || op == verbs.OpRead) {
				continue
			}
			w := a.write(off, n)
			w.Op, w.Imm = op, uint32(seed)
			if inline {
				w.SGL, w.Inline = nil, append([]byte{}, want...)
			}
			if op == verbs.OpRead {
				copy(b.buf[off:], want)
				fillWith(a.buf, canary)
				a.post(t, w)
				if wc := a.ok(t, verbs.WCRead); int(wc.ByteLen) != n {
					t.Fatalf("READ of %d bytes completed with %d", n, wc.ByteLen)
				}
				a.holds(t, off, want)
				continue
			}
			carry(t, a, b, w, off, want)
		}
	}
}

// carry posts a SEND or WRITE and checks its effect at the peer. A plain WRITE is followed by
// an empty SEND, which announces it.
func carry(t *testing.T, a, b *side, w verbs.SendWR, off int, want []byte) {
	t.Helper()
	fillWith(b.buf, canary)
	room := []verbs.SGE{b.mr.SGE(off, len(want))}
	if len(want) == 0 {
		room = nil
	}
	if err := b.qp.PostRecv(verbs.RecvWR{WRID: 9, SGL: room}); err != nil {
		t.Fatal(err)
	}
	posted, op, byteLen := []verbs.SendWR{w}, verbs.WCRecv, len(want)
	switch w.Op {
	case verbs.OpWrite:
		posted = append(posted, verbs.SendWR{Op: verbs.OpSend})
		byteLen = 0
	case verbs.OpWriteImm:
		op = verbs.WCRecvRDMAImm
	}
	a.post(t, posted...)
	done := verbs.WCWrite
	if w.Op == verbs.OpSend || w.Op == verbs.OpSendImm {
		done = verbs.WCSend
	}
	a.ok(t, done)
	wc := b.ok(t, op)
	if wc.WRID != 9 || int(wc.ByteLen) != byteLen || wc.QPN != b.qp.Number() {
		t.Fatalf("operation %d of %d bytes: completion %+v", w.Op, len(want), wc)
	}
	withImm := w.Op == verbs.OpSendImm || w.Op == verbs.OpWriteImm
	if withImm != (wc.Flags&verbs.WCWithImm != 0) || withImm && wc.Imm != w.Imm {
		t.Fatalf("operation %d: immediate data %#x with flags %#x, expected %#x", w.Op, wc.Imm, wc.Flags, w.Imm)
	}
	b.holds(t, off, want)
}

func fillWith(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// Lists of many entries with odd and empty lengths, divided differently at both ends.
func TestGatherAndScatterListsOfEveryCut(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		for _, entries := range []int{1, 2, 16, 17, 256} {
			t.Run(fmt.Sprintf("%v %d", typ, entries), func(t *testing.T) {
				e := ends{a: "127.7.2.3", b: "127.7.2.4", size: 1 << 18, qp: verbs.QPConfig{Type: typ, MaxSendSGE: entries, MaxRecvSGE: entries}}
				a, b := e.pair(t)
				fill(a.buf, uint64(entries))
				fillWith(b.buf, canary)
				var gather, scatter []verbs.SGE
				var want []byte
				for i := range entries {
					off, n := 1000*i+i%7, (i*37)%701 // lengths 0, 37, …
					gather = append(gather, a.mr.SGE(off, n))
					want = append(want, a.buf[off:off+n]...)
				}
				left := len(want)
				for i := range entries {
					n := min(left, 1+(i*53)%997)
					if i == entries-1 {
						n = left
					}
					scatter = append(scatter, b.mr.SGE(20+1000*i, n))
					left -= n
				}
				if scatter[entries-1].Length > 20000 {
					t.Fatalf("last entry of %d bytes: the test wants more even ones", scatter[entries-1].Length)
				}
				if err := b.qp.PostRecv(verbs.RecvWR{SGL: scatter}); err != nil {
					t.Fatal(err)
				}
				a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: gather})
				a.ok(t, verbs.WCSend)
				if wc := b.ok(t, verbs.WCRecv); int(wc.ByteLen) != len(want) {
					t.Fatalf("received %d bytes, expected %d", wc.ByteLen, len(want))
				}
				if got := collect(b, scatter); !bytes.Equal(got, want) {
					t.Fatal("received other bytes")
				}
				if typ == verbs.RC {
					readScattered(t, a, b, gather, len(want))
				}
			})
		}
	}
}

// readScattered READs n bytes of b's buffer into a list.
func readScattered(t *testing.T, a, b *side, list []verbs.SGE, n int) {
	t.Helper()
	a.post(t, verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: list, RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey()})
	a.ok(t, verbs.WCRead)
	if got := collect(a, list); !bytes.Equal(got, b.buf[3:3+n]) {
		t.Fatal("read other bytes")
	}
}

// collect returns the contents of the entries of a list.
func collect(s *side, list []verbs.SGE) (got []byte) {
	for _, e := range list {
		off := e.Addr - s.mr.Addr()
		got = append(got, s.buf[off:off+uint64(e.Length)]...)
	}
	return got
}

func TestListOfOneEntryTooManyIsRefused(t *testing.T) {
	e := ends{a: "127.7.2.3", b: "127.7.2.4", qp: verbs.QPConfig{Type: verbs.RC, MaxSendSGE: 16, MaxRecvSGE: 16}}
	a, _ := e.pair(t)
	list := make([]verbs.SGE, 17)
	if err := a.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: list}); err == nil {
		t.Error("send request of 17 entries posted to a queue of 16")
	}
	if err := a.qp.PostRecv(verbs.RecvWR{SGL: list}); err == nil {
		t.Error("receive request of 17 entries posted to a queue of 16")
	}
	if _, err := a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.cq, MaxSendSGE: verbs.MaxSGE + 1}); err == nil {
		t.Error("queue of too many entries created")
	}
}

// The longest message (IBTA 9.4.3: 2^31 bytes), by SEND with lists that repeat the same
// memory, and by WRITE.
func TestLongestMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: 2 GiB")
	}
	const block, entries = 8 << 20, verbs.MaxMessage / (8 << 20)
	e := ends{a: "127.7.2.5", b: "127.7.2.6", size: block, qp: verbs.QPConfig{Type: verbs.RC, MaxSendSGE: entries, MaxRecvSGE: entries}}
	a, b := e.pair(t)
	a.timeLimit, b.timeLimit = 2*time.Minute, 2*time.Minute
	fill(a.buf, 1)
	list := func(s *side) (list []verbs.SGE) {
		for range entries {
			list = append(list, s.mr.SGE(0, block))
		}
		return list
	}
	start := time.Now()
	if err := b.qp.PostRecv(verbs.RecvWR{SGL: list(b)}); err != nil {
		t.Fatal(err)
	}
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: list(a)})
	a.ok(t, verbs.WCSend)
	if wc := b.ok(t, verbs.WCRecv); wc.ByteLen != verbs.MaxMessage {
		t.Fatalf("received %d bytes", wc.ByteLen)
	}
	if !bytes.Equal(a.buf, b.buf) {
		t.Fatal("bytes differ")
	}
	t.Logf("SEND of 2 GiB in %v", time.Since(start))

	long := list(a)
	long[0].Length++
	if err := a.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: long}); err == nil {
		t.Fatal("posted a message of 2^31+1 bytes")
	}

	if n := available(); n < 3<<30 {
		t.Skipf("SKIPPED WRITE of 2 GiB: %d bytes of memory are available", n)
	}
	m, err := verbs.AllocMemory(verbs.MaxMessage, verbs.AllocConfig{})
	if err != nil {
		t.Fatal(err)
	}
	mr, err := b.pd.RegisterMemory(m.Bytes(), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	a.post(t, verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: list(a), RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	a.ok(t, verbs.WCWrite)
	t.Logf("WRITE of 2 GiB in %v", time.Since(start))
	for got := m.Bytes(); len(got) > 0; got = got[block:] {
		if !bytes.Equal(got[:block], a.buf) {
			t.Fatalf("bytes differ within the last %d", len(got))
		}
	}
	if err := mr.Deregister(); err != nil {
		t.Fatal(err)
	}
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
}

// available returns how many bytes of memory Linux can use without swapping, or a large number
// on other systems.
func available() (n uint64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 40
	}
	for line := range strings.Lines(string(b)) {
		if k, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &n); k == 1 {
			return n << 10
		}
	}
	return 1 << 40
}
