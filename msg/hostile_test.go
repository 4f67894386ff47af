package msg_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"softrdma/msg"
	"softrdma/msg/internal/format"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// The kinds of frames, and where their fields are: see package message.
const (
	frameEager = iota + 1
	frameAnnounce
	frameFinish
	frameCredit
	frameActive
	frameActiveAnnounce
	frameStream
	frameWindow
	frameAccept
	frameWritten
	frameBatch

	frameLen      = 40
	frameVersion  = 4
	flagSegments  = 4
	activeCredits = 6
)

// frame makes a frame with a name: a tag, or the header's length and the ID of an active message.
func frame(kind, flags byte, name, length uint64, payload ...byte) []byte {
	b := make([]byte, frameLen)
	b[0], b[1], b[2] = frameVersion, kind, flags
	binary.BigEndian.PutUint64(b[8:], name)
	binary.BigEndian.PutUint64(b[16:], length)
	binary.BigEndian.PutUint32(b[28:], 0x1234) // key
	return append(b, payload...)
}

// entry makes a message of n bytes of a batch.
func entry(flags, n byte) []byte {
	return append([]byte{7: 7, 12: flags, 15: n}, make([]byte, n)...)
}

func with(b []byte, at int, v byte) []byte {
	b = bytes.Clone(b)
	b[at] = v
	return b
}

// A peer that breaks the protocol loses its connection, with the reason. Others continue.
func TestHostilePeerLosesItsConnection(t *testing.T) {
	failed := make(chan error, 10)
	c := msg.Config{Eager: 100, Unexpected: 2, Announced: 2, Active: 2, Stream: 100}
	c.Failed = func(_ *msg.Endpoint, err error) { failed <- err }
	eager, active := frame(frameEager, 0, 7, 0), frame(frameActive, 0, idFirst, 0)
	header := func(n uint64) uint64 { return n<<32 | idFirst }
	piece := make([]byte, 16)
	piece[15] = 10
	cases := map[string]struct {
		frames [][]byte
		want   error
	}{
		"short frame":                  {[][]byte{eager[:frameLen-1]}, msg.ErrFrame},
		"empty frame":                  {[][]byte{nil}, msg.ErrFrame},
		"another version":              {[][]byte{with(eager, 0, 9)}, msg.ErrVersion},
		"kind 0":                       {[][]byte{with(eager, 1, 0)}, msg.ErrFrame},
		"unknown kind":                 {[][]byte{with(eager, 1, 99)}, msg.ErrFrame},
		"frame longer than memory":     {[][]byte{make([]byte, 2000)}, msg.ErrPeer},
		"eager longer than its frame":  {[][]byte{frame(frameEager, 0, 7, 10, 1, 2)}, msg.ErrFrame},
		"eager longer than the limit":  {[][]byte{frame(frameEager, 0, 7, 101, make([]byte, 101)...)}, msg.ErrFrame},
		"too many eager":               {[][]byte{eager, eager, eager}, msg.ErrLimit},
		"too many announced":           {[][]byte{frame(frameAnnounce, 0, 7, 5), frame(frameAnnounce, 0, 7, 5), frame(frameAnnounce, 0, 7, 5)}, msg.ErrLimit},
		"announced with a rest":        {[][]byte{frame(frameAnnounce, 0, 7, 5, 1)}, msg.ErrFrame},
		"announced beyond all memory":  {[][]byte{frame(frameAnnounce, 0, 7, 1<<40)}, msg.ErrFrame},
		"pieces shorter than message":  {[][]byte{frame(frameAnnounce, flagSegments, 7, 11, piece...)}, msg.ErrFrame},
		"pieces longer than message":   {[][]byte{frame(frameAnnounce, flagSegments, 7, 9, piece...)}, msg.ErrFrame},
		"piece of no bytes":            {[][]byte{frame(frameAnnounce, flagSegments, 7, 0, make([]byte, 16)...)}, msg.ErrFrame},
		"part of a piece":              {[][]byte{frame(frameAnnounce, flagSegments, 7, 10, piece[1:]...)}, msg.ErrFrame},
		"too many pieces":              {[][]byte{frame(frameAnnounce, flagSegments, 7, 170, bytes.Repeat(piece, 17)...)}, msg.ErrFrame},
		"active header beyond frame":   {[][]byte{frame(frameActive, 0, header(3), 0, 1, 2)}, msg.ErrFrame},
		"active header too long":       {[][]byte{frame(frameActive, 0, header(msg.MaxHeader+1), 0, make([]byte, msg.MaxHeader+1)...)}, msg.ErrFrame},
		"active header of 4 GiB":       {[][]byte{frame(frameActive, 0, header(1<<32-1), 0, 1)}, msg.ErrFrame},
		"active with other length":     {[][]byte{frame(frameActive, 0, header(1), 5, 1, 2)}, msg.ErrFrame},
		"active longer than the limit": {[][]byte{frame(frameActive, 0, header(1), 100, make([]byte, 101)...)}, msg.ErrFrame},
		"too many active":              {[][]byte{active, active, active}, msg.ErrLimit},
		"announced active with a rest": {[][]byte{frame(frameActiveAnnounce, 0, header(1), 5, 1, 2)}, msg.ErrFrame},
		"stream of no bytes":           {[][]byte{frame(frameStream, 0, 0, 0)}, msg.ErrFrame},
		"stream with other length":     {[][]byte{frame(frameStream, 0, 0, 2, 1)}, msg.ErrFrame},
		"stream beyond the window":     {[][]byte{frame(frameStream, 0, 0, 60, make([]byte, 60)...), frame(frameStream, 0, 0, 60, make([]byte, 60)...)}, msg.ErrLimit},
		"window beyond the limit":      {[][]byte{frame(frameWindow, 0, 0, 1)}, msg.ErrFrame},
		"window of 2^64-1 bytes":       {[][]byte{frame(frameWindow, 0, 0, 1<<64-1)}, msg.ErrFrame},
		"accept of nothing":            {[][]byte{frame(frameAccept, 0, 0, 5)}, msg.ErrFrame},
		"written that is not accepted": {[][]byte{frame(frameWritten, 0, 0, 0)}, msg.ErrFrame},
		"finish of nothing":            {[][]byte{frame(frameFinish, 0, 0, 0)}, msg.ErrFrame},
		"credits beyond the limit":     {[][]byte{with(frame(frameCredit, 0, 0, 0), 4, 255)}, msg.ErrFrame},
		"active credits beyond":        {[][]byte{with(frame(frameCredit, 0, 0, 0), activeCredits, 255)}, msg.ErrFrame},
		"batch without its messages":   {[][]byte{frame(frameBatch, 0, 0, 2, entry(0, 1)...)}, msg.ErrFrame},
		"batch of 2^64-1 messages":     {[][]byte{frame(frameBatch, 0, 0, 1<<64-1, entry(0, 1)...)}, msg.ErrFrame},
		"batch with a rest":            {[][]byte{frame(frameBatch, 0, 0, 0, 1)}, msg.ErrFrame},
		"batch beyond its frame":       {[][]byte{frame(frameBatch, 0, 0, 1, with(entry(0, 1), 15, 2)...)}, msg.ErrFrame},
		"batch with unknown flags":     {[][]byte{frame(frameBatch, 0, 0, 1, entry(2, 0)...)}, msg.ErrFrame},
		"batch beyond the limit":       {[][]byte{frame(frameBatch, 0, 0, 1, entry(0, 101)...)}, msg.ErrFrame},
		"batch of too many messages":   {[][]byte{frame(frameBatch, 0, 0, 3, bytes.Repeat(entry(0, 0), 3)...)}, msg.ErrLimit},
		"bytes after a credit frame":   {[][]byte{frame(frameCredit, 0, 0, 0, 1)}, msg.ErrFrame},
	}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		good := connect(t, a, b)
		b.Handle(idFirst, func(m *msg.Active) {
			if m.From.RemoteAddr() != good.RemoteAddr() {
				m.Keep()
			}
		})
		l := listen(t, b)
		for len(failed) > 0 { // of workers that closed
			<-failed
		}
		for name, c := range cases {
			t.Log(name)
			enemy := hostile(t, a, l)
			enemy.send(t, c.frames...)
			if err := next(t, failed); !errors.Is(err, c.want) || !errors.Is(err, msg.ErrPeer) {
				t.Errorf("%s: %v, expected %v", name, err, c.want)
			}
			enemy.close()
			r := b.Receive(msg.Buffers{make([]byte, 200)}, 8, msg.All)
			s := good.Send(8, msg.Buffers{random(200)}, nil)
			wait(t, r)
			wait(t, s)
		}
		// An announced message that cannot be read: the receive ends, as its message is lost.
		enemy := hostile(t, a, l)
		r := b.Receive(msg.Buffers{make([]byte, 100)}, 9, msg.All)
		enemy.send(t, frame(frameAnnounce, 0, 9, 100))
		if _, err := r.Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("message that cannot be read: %v, expected %v", err, msg.ErrPeer)
		}
		next(t, failed)
		enemy.close()
		if len(failed) > 0 || good.Err() != nil {
			t.Errorf("%d more failures; the good endpoint: %v", len(failed), good.Err())
		}
	})
}

// An enemy is a connection to a worker by a program that sends what it likes.
type enemy struct {
	c      *rdmacm.Conn
	memory *verbs.Memory
	region *verbs.MR
}

// hostile connects to a worker with the greeting of another.
func hostile(t *testing.T, a *msg.Worker, l *msg.Listener) *enemy {
	t.Helper()
	go func() { _, _ = l.Accept(within(t)) }()
	address := a.Address()
	greeting := append(bytes.Clone(address[:len(address)-format.RailLen]), format.ToListener, 0) // length
	d := rdmacm.Dialer{Device: a.Device(), Param: rdmacm.ConnParam{PrivateData: greeting}}
	c, err := d.Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	e := &enemy{c: c}
	pd, err := c.PD()
	if err != nil {
		t.Fatal(err)
	}
	if e.memory, err = verbs.AllocMemory(4096, verbs.AllocConfig{}); err != nil {
		t.Fatal(err)
	}
	if e.region, err = pd.RegisterMemory(e.memory.Bytes(), verbs.LocalWrite); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := c.QP().PostRecv(verbs.RecvWR{SGL: []verbs.SGE{e.region.SGE(2048, 2048)}}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *enemy) send(t *testing.T, frames ...[]byte) {
	t.Helper()
	at := 0
	for _, f := range frames {
		n := copy(e.memory.Bytes()[at:2048], f)
		if n < len(f) {
			t.Fatal("no room for the frames")
		}
		w := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{e.region.SGE(at, n)}}
		if err := e.c.QP().PostSend(w); err != nil {
			break // the worker has ended the connection
		}
		at += n
	}
}

func (e *enemy) close() {
	_ = e.c.Disconnect()
	_ = e.region.Deregister()
	_ = e.c.Close()
	_ = e.memory.Free()
}
