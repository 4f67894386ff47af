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

// noTag is the tag of p9's reply to a message that it cannot parse, and that of a version message.
const noTag = 0xffff

// call sends a request and returns the reply, which has a tag.
func (p *peer) call(t *testing.T, m []byte, tag uint16) []byte {
	t.Helper()
	p.requests <- m
	r := <-p.replies
	if len(r) != int(binary.LittleEndian.Uint32(r)) || tagOf(r) != tag {
		t.Fatalf("%x is answered with %x", m, r)
	}
	return r
}

// start has p9 serve a client, which has sent its version message. The client ends by closing its requests, and
// p9 closes ended then.
func start(t *testing.T, s *Server) (p *peer, ended chan struct{}) {
	t.Helper()
	p, ended = &peer{requests: make(chan []byte), replies: make(chan []byte, 1)}, make(chan struct{})
	go func() {
		defer close(ended)
		_ = p9.NewServer(attacher{s}).Handle(p, p)
	}()
	p.call(t, framed(typeVersion, noTag, "\x00\x20\x00\x00\x08\x009P2000.L"), noTag)
	return p, ended
}

// TestCompleteAsP9Parses compares what is taken for a complete request with what p9 parses, for a request of each
// kind and the same without some of its last bytes: p9 answers without a tag to one that it cannot parse.
func TestCompleteAsP9Parses(t *testing.T) {
	p, ended := start(t, &Server{})
	for kind, layout := range layouts {
		if layout == "" {
			continue
		}
		rest := ""
		for _, field := range layout {
			switch field {
			case 's':
				rest += "\x02\x00ab"
			case 'n':
				rest += "\x02\x00\x01\x00a\x03\x00abc"
			case 'd':
				rest += "\x03\x00\x00\x00abc"
			default:
				rest += strings.Repeat("\x09", int(field-'0'))
			}
		}
		whole := framed(byte(kind), 1, rest)
		if !complete(whole) {
			t.Errorf("%x is not complete", whole)
		}
		p.call(t, whole, 1)
		for n := range len(rest) {
			part := framed(byte(kind), 1, rest[:n])
			if complete(part) {
				t.Errorf("%x is complete without its last %d bytes", part, len(rest)-n)
			}
			p.call(t, part, noTag)
		}
	}
	close(p.requests)
	<-ended
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
		p, ended := start(t, s)
		attach := framed(typeAttach, 1, "\x01\x00\x00\x00"+none+"\x00\x00\x00\x00"+none)
		if ok, err := held.begin(attach); !ok || err != nil {
			t.Fatal(ok, err)
		}
		held.end(p.call(t, attach, 1))
		for len(b) >= 2 {
			kind, n := b[0], min(int(b[1]), len(b)-2)
			m := framed(kind, 1, string(b[2:2+n]))
			b = b[2+n:]
			if kind == typeVersion || layouts[kind] == "" || !complete(m) {
				continue
			}
			ok, err := held.begin(m)
			if admit(m, limit) != nil || err != nil {
				break
			}
			if !ok {
				continue
			}
			r := p.call(t, m, 1)
			held.end(r)
			if len(r) > limit {
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
