package nfs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"softrdma/rdmacm"
	"softrdma/storage/internal/channel"
	"softrdma/storage/nfs"
	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
	"softrdma/verbs"
)

// Longer runs: go test ./storage/nfs -run Random -operations 100000
var (
	operations = flag.Int("operations", 200, "random operations of each client")
	seed       = flag.Uint64("seed", 1, "seed of random operations")
)

const serverAddress = "127.0.22.1"

// A world is a server with its clients' device.
type world struct {
	t      *testing.T
	dir    string
	client *verbs.Device
	stop   func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d, err := verbs.Open("127.0.22.2", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w := &world{t: t, dir: t.TempDir(), client: d}
	w.start(false)
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts a server of the directory.
func (w *world) start(readOnly bool) {
	w.t.Helper()
	dev, err := verbs.Open(serverAddress, verbs.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := rdmacm.Listen(serverAddress+":20049", rdmacm.ListenConfig{Device: dev})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := nfs.Open(w.dir, readOnly)
	if err != nil {
		w.t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = (&rpcrdma.Server{Service: s}).Serve(w.t.Context(), l) })
	w.stop = func() {
		err := l.Close()
		served.Wait()
		if c := dev.Counts(); c != (verbs.Counts{}) {
			w.t.Errorf("the server has left %+v", c)
		}
		if err = errors.Join(err, s.Close(), dev.Close()); err != nil {
			w.t.Error(err)
		}
	}
}

// A client executes calls, one at a time, with data in its own memory.
type client struct {
	t      *testing.T
	w      *world
	c      *channel.Conn
	memory *verbs.MR
	xid    uint32
}

const (
	inline = 4096
	chunk  = 300 << 10 // of data, after which the reply chunk begins
)

func (w *world) dial() *client {
	w.t.Helper()
	c := &client{t: w.t, w: w, xid: rand.Uint32()}
	c.connect()
	return c
}

func (c *client) connect() {
	c.t.Helper()
	d := rdmacm.Dialer{Device: c.w.client}
	e, err := d.Resolve(c.t.Context(), serverAddress+":20049")
	if err != nil {
		c.t.Fatal(err)
	}
	private := wire.Private{Send: inline, Receive: inline}
	cfg := channel.Config{Receives: 8, ReceiveSize: inline, Sends: 8, Memory: 1 << 20}
	if c.c, err = channel.Connect(c.t.Context(), e, cfg, rdmacm.ConnParam{PrivateData: private.Append(nil)}); err != nil {
		c.t.Fatal(err)
	}
	if c.memory, err = c.c.PD().RegisterMemory(make([]byte, 2*chunk), verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) close() {
	c.t.Helper()
	if err := errors.Join(c.memory.Deregister(), c.c.Close()); err != nil {
		c.t.Error(err)
	}
}

func (c *client) at(off, n int) wire.Segment {
	return wire.Segment{Handle: c.memory.RKey(), Length: uint32(n), Offset: c.memory.Addr() + uint64(off)}
}

// send sends a header with a body.
func (c *client) send(h wire.Header, body []byte) error {
	h.Credits = 8
	b, err := c.c.Buffer(inline)
	if err != nil {
		return err
	}
	defer c.c.Put(b)
	m := append(h.Append(b.Bytes[:0]), body...)
	return c.c.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, len(m))}})
}

// call executes a procedure, and returns the status and what follows it. Data that is written is in a read
// chunk, and data that is read comes to a write chunk of n bytes, if n is not 0.
func (c *client) call(procedure uint32, arguments, data []byte, n int) (uint32, []byte, error) {
	c.xid++
	return c.repeat(procedure, arguments, data, n)
}

func (c *client) repeat(procedure uint32, arguments, data []byte, n int) (uint32, []byte, error) {
	body := words(c.xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0)
	body = append(body, arguments...)
	h := wire.Header{XID: c.xid, Reply: []wire.Segment{c.at(chunk, chunk)}}
	if data != nil {
		body = append(body, words(uint32(len(data)))...)
		half := copy(c.memory.Bytes(), data[:len(data)/2])
		copy(c.memory.Bytes()[half:], data[half:])
		for _, s := range []wire.Segment{c.at(0, half), c.at(half, len(data)-half)} {
			h.Reads = append(h.Reads, wire.ReadSegment{Position: uint32(len(body)), Segment: s})
		}
	}
	if n > 0 {
		h.Writes = [][]wire.Segment{{c.at(0, n)}}
	}
	if err := c.send(h, body); err != nil {
		return 0, nil, err
	}
	m, err := c.c.Receive()
	if err != nil {
		return 0, nil, err
	}
	defer c.c.Release(m)
	got, _, err := wire.Parse(m.Data)
	if err != nil || got.XID != c.xid || got.Type != wire.NoMsg || len(got.Reply) != 1 || got.Reply[0].Length < 28 {
		return 0, nil, fmt.Errorf("found the reply %+v, %w", got, err)
	}
	r := c.memory.Bytes()[chunk : chunk+int(got.Reply[0].Length)]
	if accepted := binary.BigEndian.Uint32(r[20:]); accepted != 0 {
		return 0, nil, fmt.Errorf("call has the result %d", accepted)
	}
	return binary.BigEndian.Uint32(r[24:]), r[28:], nil
}

func words(w ...uint32) (b []byte) {
	for _, w := range w {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// args appends arguments: numbers are words, int64 two words, and the rest opaque items.
func args(list ...any) (b []byte) {
	for _, a := range list {
		switch a := a.(type) {
		case int:
			b = append(b, words(uint32(a))...)
		case int64:
			b = append(b, words(uint32(a>>32), uint32(a))...)
		case string:
			b = append(b, args([]byte(a))...)
		case []byte:
			b = append(append(b, words(uint32(len(a)))...), a...)
			b = append(b, make([]byte, wire.Pad(len(a))-len(a))...)
		}
	}
	return b
}

// root returns the handle of the root, as that of "." in any service of the directory.
func (w *world) root() []byte {
	w.t.Helper()
	s, err := nfs.Open(w.dir, true)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	reply := make([]byte, 1000)
	b := append(words(1, 0, 2, 100005, 3, 1, 0, 0, 0, 0), args("/")...)
	if _, _, err := s.Call(w.t.Context(), b, reply); err != nil {
		w.t.Fatal(err)
	}
	return reply[32 : 32+binary.BigEndian.Uint32(reply[28:])]
}

// must fails the test unless a call succeeds.
func (c *client) must(procedure uint32, arguments, data []byte, n int) []byte {
	c.t.Helper()
	status, r, err := c.call(procedure, arguments, data, n)
	if err != nil || status != 0 {
		c.t.Fatalf("procedure %d: status %d, %v", procedure, status, err)
	}
	return r
}

func (c *client) create(dir []byte, name string) []byte {
	c.t.Helper()
	r := c.must(8, args(dir, name, 0, 0, 0, 0, 0, 0, 0), nil, 0)
	return bytes.Clone(r[8 : 8+binary.BigEndian.Uint32(r[4:])])
}

// A model is a file as it must be.
type model struct {
	data  []byte
	limit int
}

func (m *model) write(off int, data []byte) {
	m.resize(max(len(m.data), off+len(data)))
	copy(m.data[off:], data)
}

func (m *model) resize(n int) {
	if old := len(m.data); n > old {
		m.data = slices.Grow(m.data, n-old)[:n]
		clear(m.data[old:])
	}
	m.data = m.data[:n]
}

// operate executes a random operation on a file and its model.
func (c *client) operate(r *rand.Rand, handle []byte, m *model) {
	c.t.Helper()
	off, n := r.IntN(m.limit), r.IntN(min(m.limit, chunk))
	switch r.IntN(6) {
	case 0, 1:
		n = min(n, m.limit-off)
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c.must(7, args(handle, int64(off), n, max(0, r.IntN(20)-17)), data, 0) // few are stable, which takes long
		if n > 0 {
			m.write(off, data)
		}
	case 2, 3:
		c.read(handle, m, off, n)
	case 4:
		size := r.IntN(m.limit)
		c.must(2, args(handle, 0, 0, 0, 1, int64(size), 0, 0, 0), nil, 0)
		m.resize(size)
	case 5:
		res := c.must(1, args(handle), nil, 0)
		if size := binary.BigEndian.Uint64(res[20:]); size != uint64(len(m.data)) {
			c.t.Fatalf("expected %d bytes, found %d", len(m.data), size)
		}
		if r.IntN(10) == 0 {
			c.must(21, args(handle, int64(0), 0), nil, 0)
		}
	}
}

// read reads a piece and compares it.
func (c *client) read(handle []byte, m *model, off, n int) {
	c.t.Helper()
	res := c.must(6, args(handle, int64(off), n), nil, n)
	count := int(binary.BigEndian.Uint32(res[88:]))
	want := m.data[min(off, len(m.data)):min(off+n, len(m.data))]
	if !bytes.Equal(c.memory.Bytes()[:count], want) {
		c.t.Fatalf("READ of %d bytes at %d: expected %d bytes, found %d, or others", n, off, len(want), count)
	}
	if eof := binary.BigEndian.Uint32(res[92:]) == 1; eof != (off+n >= len(m.data)) {
		c.t.Fatalf("READ of %d bytes at %d of %d: the end is %v", n, off, len(m.data), eof)
	}
}

// TestRandomOperations: several clients at once change files of their own at random, which always have what
// a model of them has, and the real files in the end. The server is ended and started again in between.
func TestRandomOperations(t *testing.T) {
	const clients = 3
	w := newWorld(t)
	root := w.root()
	limits := []int{5000, 100 << 10, 250 << 10}
	var models [clients]model
	var handles [clients][]byte
	for round := range 2 {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				c := w.dial()
				defer c.close()
				m := &models[i]
				if round == 0 {
					m.limit = limits[i]
					handles[i] = c.create(root, fmt.Sprintf("file%d", i))
				}
				r := rand.New(rand.NewPCG(*seed, uint64(round*clients+i)))
				for range *operations {
					if c.operate(r, handles[i], m); t.Failed() {
						return
					}
				}
			})
		}
		all.Wait()
		for i, m := range models {
			if got, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("file%d", i))); err != nil || !bytes.Equal(got, m.data) {
				t.Errorf("seed %d: client %d: the file has %d bytes, its model %d, or others: %v", *seed, i, len(got), len(m.data), err)
			}
		}
		w.stop()
		w.start(false)
	}
}

// A client that connects again repeats its last call, which is not executed twice.
func TestCallIsRepeatedAfterReconnect(t *testing.T) {
	w := newWorld(t)
	root := w.root()
	c := w.dial()
	c.must(9, args(root, "dir", 0, 0, 0, 0, 0, 0), nil, 0)
	c.close()
	c.connect()
	defer c.close()
	if status, _, err := c.repeat(9, args(root, "dir", 0, 0, 0, 0, 0, 0), nil, 0); status != 0 || err != nil {
		t.Errorf("MKDIR, repeated: status %d, %v", status, err)
	}
	if status, _, err := c.call(9, args(root, "dir", 0, 0, 0, 0, 0, 0), nil, 0); status != 17 || err != nil {
		t.Errorf("MKDIR, new: expected NFS3ERR_EXIST, found %d, %v", status, err)
	}
}

// A client that ends in the middle of a write leaves nothing at the server, and disturbs no other client.
func TestClientEndsWhileItWrites(t *testing.T) {
	w := newWorld(t)
	root := w.root()
	other := w.dial()
	defer other.close()
	m := &model{limit: 100 << 10}
	kept := other.create(root, "kept")
	r := rand.New(rand.NewPCG(*seed, 99))
	for i := range 10 {
		c := w.dial()
		h := c.create(root, "lost")
		body := append(words(uint32(i), 0, 2, 100003, 3, 7, 0, 0, 0, 0), args(h, int64(0), chunk, 2)...)
		body = append(body, words(chunk)...)
		err := c.send(wire.Header{
			XID: uint32(i), Reply: []wire.Segment{c.at(chunk, chunk)},
			Reads: []wire.ReadSegment{{Position: uint32(len(body)), Segment: c.at(0, chunk)}},
		}, body)
		if err != nil {
			t.Fatal(err)
		}
		c.close() // the server may be reading the chunk
		for range 5 {
			other.operate(r, kept, m)
		}
	}
	other.read(kept, m, 0, m.limit)
}

// A hostile client names memory that it has not, or sends nothing. Others are served.
func TestHostileClients(t *testing.T) {
	w := newWorld(t)
	root := w.root()
	silent := w.dial()
	defer silent.close()
	honest := w.dial()
	defer honest.close()
	h := honest.create(root, "file")
	for name, header := range map[string]wire.Header{
		"key":    {Reads: []wire.ReadSegment{{Segment: wire.Segment{Handle: 0x1234, Length: 500, Offset: 4096}}}, Type: wire.NoMsg},
		"length": {Reads: []wire.ReadSegment{{Segment: wire.Segment{Length: 1<<32 - 1}}}, Type: wire.NoMsg},
		"write":  {Writes: [][]wire.Segment{{{Handle: 1, Length: 1 << 20, Offset: 1 << 40}}}},
		"reply":  {Reply: []wire.Segment{{Handle: 1, Length: 1 << 20, Offset: 1 << 40}}},
	} {
		c := w.dial()
		body := append(words(1, 0, 2, 100003, 3, 6, 0, 0, 0, 0), args(h, int64(0), 100)...)
		if header.Type == wire.NoMsg {
			body = nil
		}
		header.XID = 1
		// The server may name the bad key before it has acknowledged the SEND, which is flushed then.
		var failed *verbs.CompletionError
		if err := c.send(header, body); err != nil && (!errors.As(err, &failed) || failed.Status != verbs.WRFlushErr) {
			t.Errorf("%s: %v", name, err)
		}
		if m, err := c.c.Receive(); err == nil { // answered, as some are with ERR_CHUNK
			if got, _, err := wire.Parse(m.Data); err != nil || got.Type != wire.Error && name != "write" {
				t.Errorf("%s: found %+v, %v", name, got, err)
			}
			c.c.Release(m)
		}
		c.close()
		honest.must(7, args(h, int64(0), 4, 0), []byte("text"), 0)
	}
	if got, err := os.ReadFile(filepath.Join(w.dir, "file")); err != nil || string(got) != "text" {
		t.Errorf("found %q, %v", got, err)
	}
}
