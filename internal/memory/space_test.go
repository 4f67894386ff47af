package memory

import (
	"bytes"
	"errors"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// program is the memory of another process, starting at address at.
type program struct {
	at          uint64
	mem         []byte
	loads, puts int
}

var errUnmapped = errors.New("not mapped")

func (p *program) find(addr uint64, n int) []byte {
	if addr < p.at || addr+uint64(n) > p.at+uint64(len(p.mem)) {
		return nil
	}
	return p.mem[addr-p.at:][:n]
}

func (p *program) Load(dst []byte, addr uint64) error {
	b := p.find(addr, len(dst))
	if b == nil {
		return errUnmapped
	}
	p.loads++
	copy(dst, b)
	return nil
}

func (p *program) Store(addr uint64, src []byte) error {
	b := p.find(addr, len(src))
	if b == nil {
		return errUnmapped
	}
	p.puts++
	copy(b, src)
	return nil
}

const foreignRights = qp.LocalWrite | qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.MWBind

func newForeign(t *testing.T, n int, f Foreign) (*Table, *Region, *program) {
	t.Helper()
	p := &program{at: 1 << 20, mem: make([]byte, n)}
	for i := range p.mem {
		p.mem[i] = byte(i * 3)
	}
	f.Space, f.Addr = p, p.at
	x := NewTable()
	r, err := x.RegisterForeign(1, make([]byte, n), 0x5000, foreignRights, f)
	if err != nil {
		t.Fatal(err)
	}
	return x, r, p
}

func TestForeignMemoryIsReadWhenItIsSent(t *testing.T) {
	x, r, p := newForeign(t, 200<<10, Foreign{})
	list := []SGE{{Addr: r.Base + 100, Length: 150 << 10, LKey: r.Key}}
	var c Cursor
	var got []byte
	for pos := uint64(0); pos < 150<<10; pos += 4096 {
		pieces, d := c.Gather(x, 1, list, pos, int(min(4096, 150<<10-pos)), nil)
		if d.Reason != reason.None {
			t.Fatal(d)
		}
		got = append(got, bytes.Join(pieces, nil)...)
	}
	if !bytes.Equal(got, p.mem[100:][:150<<10]) {
		t.Error("the gathered bytes differ from the program's memory")
	}
	if p.loads != 3 {
		t.Errorf("%d calls for 150 KiB, want one for each 64 KiB", p.loads)
	}
	p.mem[100] = 0xee // the program's next message
	c.Restart()
	if pieces, _ := c.Gather(x, 1, list, 0, 10, nil); pieces[0][0] != 0xee {
		t.Error("the next message has the data of the one before")
	}
	p.mem[100] = 0xdd // even without a restart, because the list has one entry
	if pieces, _ := c.Gather(x, 1, list, 0, 10, nil); pieces[0][0] != 0xdd {
		t.Error("the first bytes of a message were not loaded again")
	}
	p.mem[300] = 0xcc
	if b := r.Read(r.Base+300, 4); b[0] != 0xcc {
		t.Error("a READ does not have the program's memory as it is")
	}
}

func TestForeignMemoryIsWritten(t *testing.T) {
	x, r, p := newForeign(t, 8192, Foreign{})
	if d := r.Put(r.Base+5, []byte("put")); d.Reason != reason.None || string(p.mem[5:8]) != "put" {
		t.Errorf("%v: found %q", d, p.mem[5:8])
	}
	var c Cursor
	list := []SGE{{Addr: r.Base + 20, Length: 2, LKey: r.Key}, {Addr: r.Base + 40, Length: 10, LKey: r.Key}}
	if d := c.Scatter(x, 1, list, 0, []byte("scatter")); d.Reason != reason.None || string(p.mem[20:22])+string(p.mem[40:45]) != "scatter" {
		t.Errorf("%v: found %q and %q", d, p.mem[20:22], p.mem[40:45])
	}
	if d := r.Put(r.Base+8190, []byte("over")); d.Reason != reason.KeyBounds {
		t.Errorf("beyond the region: %v", d)
	}
	for i := range 8 {
		p.mem[64+i] = 0
	}
	if old, ok := r.FetchAdd(r.Base+64, 7); !ok || old != 0 || p.mem[64] != 7 {
		t.Errorf("fetch and add: %d %t, left %d", old, ok, p.mem[64])
	}
	if old, ok := r.CompareSwap(r.Base+64, 7, 9); !ok || old != 7 || p.mem[64] != 9 {
		t.Errorf("compare and swap: %d %t, left %d", old, ok, p.mem[64])
	}
	if old, ok := r.CompareSwap(r.Base+64, 7, 1); !ok || old != 9 || p.mem[64] != 9 {
		t.Errorf("compare and swap that differs: %d %t, left %d", old, ok, p.mem[64])
	}
	if ok := r.SetWord(r.Base+64, 11); !ok || p.mem[64] != 11 {
		t.Errorf("set to %d, %v", p.mem[64], ok)
	}
	if r.SetWord(r.Base+65, 1) {
		t.Error("an unaligned word was set")
	}
	if _, ok := r.FetchAdd(r.Base+65, 1); ok {
		t.Error("a word that is not aligned was changed")
	}
}

func TestForeignMemoryGoneIsNamed(t *testing.T) {
	x, r, p := newForeign(t, 8192, Foreign{})
	p.mem = p.mem[:4096]
	var c Cursor
	list := []SGE{{Addr: r.Base + 4096, Length: 10, LKey: r.Key}}
	if _, d := c.Gather(x, 1, list, 0, 10, nil); d.Reason != reason.MemoryUnmapped || d.Found != p.at+4096 {
		t.Errorf("gather: %v", d)
	}
	if d := c.Scatter(x, 1, list, 0, []byte("x")); d.Reason != reason.MemoryUnmapped {
		t.Errorf("scatter: %v", d)
	}
	if d := r.Put(r.Base+4096, []byte("x")); d.Reason != reason.MemoryUnmapped {
		t.Errorf("put: %v", d)
	}
	if r.Read(r.Base+4096, 1) != nil {
		t.Error("read memory that is not mapped")
	}
	if _, ok := r.FetchAdd(r.Base+4096, 1); ok {
		t.Error("changed memory that is not mapped")
	}
}
