package memory

import (
	"bytes"
	"errors"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// program is another process's memory from address at on.
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
		t.Error("what was gathered is not the program's memory")
	}
	if p.loads != 3 {
		t.Errorf("%d calls for 150 KiB, want one for each 64 KiB", p.loads)
	}
	p.mem[100] = 0xee // the program's next message
	c.Restart()
	if pieces, _ := c.Gather(x, 1, list, 0, 10, nil); pieces[0][0] != 0xee {
		t.Error("the next message has the data of the one before")
	}
	p.mem[100] = 0xdd // also where nobody restarts, because the list is of one entry
	if pieces, _ := c.Gather(x, 1, list, 0, 10, nil); pieces[0][0] != 0xdd {
		t.Error("the first bytes of a message were not loaded anew")
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
		t.Error("read what is not there")
	}
	if _, ok := r.FetchAdd(r.Base+4096, 1); ok {
		t.Error("changed what is not there")
	}
}

func TestSharedPartOfForeignMemoryIsUsedInPlace(t *testing.T) {
	x, r, p := newForeign(t, 12288, Foreign{Shared: 4096, SharedEnd: 8192})
	copy(r.mem[4096:8192], "shared")
	if b := r.Read(r.Base+4096, 6); string(b) != "shared" || p.loads != 0 {
		t.Errorf("found %q after %d loads", b, p.loads)
	}
	if d := r.Put(r.Base+4096, []byte("put")); d.Reason != reason.None || p.puts != 0 || string(r.mem[4096:4099]) != "put" {
		t.Errorf("%v after %d stores", d, p.puts)
	}
	// Across the borders the rest is the program's, and the shared part stays.
	b := r.Read(r.Base+4000, 5000)
	if p.loads != 2 || !bytes.Equal(b[:96], p.mem[4000:4096]) || string(b[96:102]) != "putred" || !bytes.Equal(b[4192:], p.mem[8192:9000]) {
		t.Errorf("a read across both borders is wrong after %d loads", p.loads)
	}
	key, err := x.AllocWindow(1, MW2)
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Bind(&Bind{Window: key, NewKey: key ^ 1, Region: r.Key, Addr: r.Base + 2048, Length: 4096, Access: qp.RemoteRead, PD: 1}); d.Reason != reason.None {
		t.Fatal(d)
	}
	w := x.Lookup(key ^ 1)
	p.loads = 0
	if b := w.Read(r.Base+2048, 4096); p.loads != 1 || !bytes.Equal(b[:2048], p.mem[2048:4096]) || string(b[2048:2054]) != "putred" {
		t.Errorf("a window across the border is wrong after %d loads", p.loads)
	}
}
