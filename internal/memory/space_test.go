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

func TestSharedPartOfForeignMemoryIsUsedInPlace(t *testing.T) {
	x, r, p := newForeign(t, 12288, Foreign{Shared: 4096, SharedEnd: 8192})
	copy(r.mem[4096:8192], "shared")
	if b := r.Read(r.Base+4096, 6); string(b) != "shared" || p.loads != 0 {
		t.Errorf("found %q after %d loads", b, p.loads)
	}
	if d := r.Put(r.Base+4096, []byte("put")); d.Reason != reason.None || p.puts != 0 || string(r.mem[4096:4099]) != "put" {
		t.Errorf("%v after %d stores", d, p.puts)
	}
	// Across the boundaries the rest belongs to the program, and the shared part is unchanged.
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

// A message across the boundaries reaches the program in order, each part in its way: shared
// parts are not stored again after the program has changed them.
func TestSharedPartIsNotStored(t *testing.T) {
	for _, n := range []int{2000, 100_000} { // deferred, and at once
		x, r, p := newForeign(t, 3*n, Foreign{Shared: uint64(n / 2), SharedEnd: uint64(2 * n)})
		before := bytes.Clone(p.mem[n/2 : 2*n])
		msg := bytes.Repeat([]byte{0xaa, 0xbb}, 5*n/4)
		if d := r.Put(r.Base, msg); d.Reason != reason.None {
			t.Fatal(d)
		}
		if !bytes.Equal(r.mem[n/2:2*n], msg[n/2:2*n]) {
			t.Errorf("%d: the shared part is not the message's", n)
		}
		if l := x.Flush(); len(l) != 0 {
			t.Fatal(l)
		}
		if !bytes.Equal(p.mem[n/2:2*n], before) {
			t.Errorf("%d: the shared part was stored as well", n)
		}
		if !bytes.Equal(p.mem[:n/2], msg[:n/2]) || !bytes.Equal(p.mem[2*n:5*n/2], msg[2*n:]) {
			t.Errorf("%d: the rest was not stored", n)
		}
	}
}

// Deferred stores come before shared memory is changed: a program may poll the latter to
// detect the former.
func TestSharedMemoryIsChangedAfterDeferredStores(t *testing.T) {
	for name, then := range map[string]func(r *Region){
		"a store":       func(r *Region) { r.Put(r.Base+4096, []byte{1}) },
		"an atomic":     func(r *Region) { r.FetchAdd(r.Base+4096, 1) },
		"a word":        func(r *Region) { r.SetWord(r.Base+4096, 1) },
		"from a socket": func(r *Region) { r.Place(r.Base+4096, 1)[0] = 1 },
		"a list from a socket": func(r *Region) {
			var c Cursor
			c.Places(r.table, 1, []SGE{{Addr: r.Base + 4096, Length: 1, LKey: r.Key}}, 0, 1, nil)
		},
	} {
		_, r, p := newForeign(t, 8192, Foreign{Shared: 4096, SharedEnd: 8192})
		if d := r.Put(r.Base, bytes.Repeat([]byte{0xaa}, 2000)); d.Reason != reason.None || p.mem[1999] == 0xaa {
			t.Fatalf("%v: not deferred", d)
		}
		if then(r); p.mem[1999] != 0xaa {
			t.Errorf("%s overtook an earlier store", name)
		}
	}
}
