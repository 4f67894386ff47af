package ninep

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hugelgupf/p9/p9"
)

// A peer is a client's connection, without RDMA: p9 reads requests from it, and writes replies to it.
type peer struct {
	requests chan []byte
	replies  chan []byte
	in, out  []byte
}

func (p *peer) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		m, ok := <-p.requests
		if !ok {
			time.Sleep(startTime)
			return 0, io.EOF
		}
		p.in = m
	}
	n := copy(b, p.in)
	p.in = p.in[n:]
	return n, nil
}

func (p *peer) Write(b []byte) (int, error) {
	p.out = append(p.out, b...)
	if len(p.out) >= headerLen && len(p.out) >= int(binary.LittleEndian.Uint32(p.out)) {
		p.replies <- p.out
		p.out = nil
	}
	return len(b), nil
}

func (p *peer) Close() error { return nil }

// noTag is the tag of p9's reply to a message that it cannot parse. The client has no answer then.
const noTag = 0xffff

// call sends a request and returns the reply.
func (p *peer) call(t *testing.T, m []byte) []byte {
	t.Helper()
	p.requests <- m
	r := <-p.replies
	if len(r) != int(binary.LittleEndian.Uint32(r)) || tagOf(r) != tagOf(m) && tagOf(r) != noTag {
		t.Fatalf("%x is answered with %x", m, r)
	}
	return r
}

// framed returns a message of a kind with the bytes that follow its header.
func framed(kind byte, tag uint16, rest string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(headerLen+len(rest)))
	return append(binary.LittleEndian.AppendUint16(append(b, kind), tag), rest...)
}

// FuzzMessages sends messages of any kind and content, one after the other, as far as they are admitted. Each is
// answered, nothing outside of the directory changes, and when the client has gone nothing is open or locked.
func FuzzMessages(f *testing.F) {
	const limit, none = 8192, "\xff\xff\xff\xff"
	script := func(messages ...string) (all []byte) {
		for _, m := range messages {
			all = append(append(all, m[0], byte(len(m)-1)), m[1:]...)
		}
		return all
	}
	f.Add(script("\x6e\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x04\x00file", "\x0c\x02\x00\x00\x00\x02\x00\x00\x00", // walk, open
		"\x34\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x04\x00host",             // lock
		"\x76\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00data", "\x74\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00", // write, read
		"\x14\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00x", "\x78\x02\x00\x00\x00"))
	f.Add(script("\x10\x01\x00\x00\x00\x01\x00l\x09\x00../secret\x00\x00\x00\x00", "\x6e\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x01\x00l", // symlink, walk
		"\x1a\x02\x00\x00\x00\x3f\x00\x00\x00"+strings.Repeat("\x01", 52), "\x16\x02\x00\x00\x00", "\x4a\x01\x00\x00\x00\x01\x00l\x01\x00\x00\x00\x01\x00m")) // setattr, readlink, rename
	f.Add(script("\x6e\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00", "\x0e\x02\x00\x00\x00\x01\x00n\x42\x00\x00\x00\xa4\x01\x00\x00\x00\x00\x00\x00", // clone, create
		"\x48\x01\x00\x00\x00\x01\x00d\xff\x01\x00\x00\x00\x00\x00\x00", "\x4c\x01\x00\x00\x00\x01\x00d\x00\x02\x00\x00", "\x7a\x02\x00\x00\x00")) // mkdir, unlink, remove
	f.Fuzz(func(t *testing.T, b []byte) {
		outside := t.TempDir()
		dir, secret := filepath.Join(outside, "served"), filepath.Join(outside, "secret")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{secret, filepath.Join(dir, "file")} {
			if err := os.WriteFile(name, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := os.Stat(secret)
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		cfg, _ := Config{MaxMessage: limit, Files: 50, Open: 5}.complete()
		s, held := &Server{Root: root}, newFids(cfg)
		p := &peer{requests: make(chan []byte), replies: make(chan []byte, 1)}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = p9.NewServer(attacher{s}).Handle(p, p)
		}()
		p.call(t, framed(typeVersion, noTag, "\x00\x20\x00\x00\x08\x009P2000.L"))
		attach := framed(typeAttach, 1, "\x01\x00\x00\x00"+none+"\x00\x00\x00\x00"+none)
		if ok, err := held.begin(attach); !ok || err != nil {
			t.Fatal(ok, err)
		}
		held.end(p.call(t, attach))
		for len(b) >= 2 {
			kind, n := b[0], min(int(b[1]), len(b)-2)
			m := framed(kind, 1, string(b[2:2+n]))
			b = b[2+n:]
			if kind == typeVersion || kind == typeXattrWalk || kind == typeXattrCreate || kind == typeGetLock {
				continue
			}
			ok, err := held.begin(m)
			if admit(m, limit) != nil || err != nil {
				break
			}
			if !ok {
				continue
			}
			r := p.call(t, m)
			held.end(r)
			if len(r) > limit || tagOf(r) == noTag {
				break
			}
		}
		close(p.requests)
		<-ended
		if s.locks.count != 0 || len(s.locks.files) != 0 {
			t.Errorf("%d locks are left", s.locks.count)
		}
		if after, err := os.Stat(secret); err != nil || after.ModTime() != before.ModTime() || after.Mode() != before.Mode() {
			t.Errorf("a file outside has changed: %v, %v", after, err)
		}
	})
}
