package rcopy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
)

// openSource opens the file to copy.
func openSource(name string) (f *os.File, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: expected a regular file, found %s", name, fileKind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fileKind describes the type of a file that is not a regular file.
func fileKind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// modeRegular is Linux's S_IFREG, the type bits of a regular file's mode.
const modeRegular = 0o100000

// A client is the end that sends a file. It waits for an answer only where it needs it: a round trip may be long.
type client struct {
	stream
	asked    []asked  // what the server has not answered yet, oldest first
	compared compared // by this client, and by those of the connections before
}

// An asked is a command that was sent.
type asked struct {
	command uint8
	what    string
}

// sourceKey identifies a version of a source, so that the server recognises a partial copy of
// it. It is never 0. The permissions are a part of it, because a partial copy has those that the source had.
func sourceKey(f *os.File, info fs.FileInfo) (uint64, error) {
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return 0, err
	}
	host, _ := os.Hostname() // the rest also identifies it
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d\x00%o", host, path, info.Size(), info.ModTime().UnixNano(), info.Mode().Perm()))
	return binary.LittleEndian.Uint64(sum[:]) | 1, nil
}

// A sent describes a copy.
type sent struct {
	from, size int64         // of the part that was sent: where it begins, and its length
	took       time.Duration // for the data
}

// send copies a file, starting where an earlier copy ended unless whole is set. If it fails, only from is set.
func (c *client) send(f *os.File, path string, whole bool) (s sent, err error) {
	// The file may have changed since the connection before. The key and the length must be those of
	// one version, or the server would continue a part of another one.
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	start := time.Now()
	if info.Size() <= syncSize || whole {
		err = c.open(path, info.Mode(), 0)
	} else if s.from, err = c.resume(f, info, path); err == nil {
		start = time.Now()
	}
	if err != nil {
		return s, err
	}
	if _, err := f.Seek(s.from, io.SeekStart); err != nil {
		return s, err
	}
	size := info.Size() - s.from
	// Opening creates an empty file. librdmacm's server fails to map 0 bytes.
	if size > 0 {
		if err := c.data(f, size); err != nil {
			return s, err
		}
	}
	if err := c.ask(header{command: opClose, length: headerLen}, nil, "close the file"); err != nil {
		return s, err
	}
	if err := c.settle(1); err != nil {
		return s, err
	}
	took := time.Since(start)
	if _, err = c.answer(); err == nil {
		s.size, s.took = size, took
	}
	return s, err
}

// resume opens a file of which the server may have a part, and compares that part with the source. It returns the
// part's length.
func (c *client) resume(f *os.File, info fs.FileInfo, path string) (from int64, err error) {
	key, err := sourceKey(f, info)
	if err != nil {
		return 0, err
	}
	if err := c.open(path, info.Mode(), key); err != nil {
		return 0, err
	}
	id, err := c.answer()
	if err != nil {
		return 0, err
	}
	if had := id - key; had <= uint64(info.Size()) { // otherwise the server did not answer with an offset
		from = int64(had)
	}
	return from, c.check(f, key, from)
}

func (c *client) open(path string, mode fs.FileMode, key uint64) error {
	name := make([]byte, (len(path)+8)&^7)
	copy(name, path)
	h := header{command: opOpen, length: uint16(headerLen + len(name)), data: modeRegular | uint32(mode.Perm()), id: key}
	return c.ask(h, name, "open "+path)
}

// ask sends a message.
func (c *client) ask(h header, rest []byte, what string) error {
	c.asked = append(c.asked, asked{h.command, what})
	_, err := c.Write(append(h.append(nil), rest...))
	if errors.As(err, new(*net.OpError)) {
		return c.refusalReason(err)
	}
	return err
}

// answer receives the answer to the oldest command that has none, and returns its id.
func (c *client) answer() (id uint64, err error) {
	q := c.asked[0]
	c.asked = c.asked[1:]
	h, err := c.header()
	switch {
	case err == io.EOF:
		return 0, cli.PeerErrorf("the server ended the connection instead of answering: expected it to %s", q.what)
	case err != nil:
		return 0, err
	case h.command != q.command|replyFlag || h.length != headerLen:
		return 0, cli.PeerErrorf("expected answer %#02x of %d bytes, found %#02x of %d", q.command|replyFlag, headerLen, h.command, h.length)
	case h.data != 0:
		return 0, q.refused(h.data)
	}
	return h.id, nil
}

// settle receives answers until at most n commands have none.
func (c *client) settle(n int) error {
	for len(c.asked) > n {
		if _, err := c.answer(); err != nil {
			return err
		}
	}
	return nil
}

// refused returns the error of a refusal.
func (q asked) refused(number uint32) error {
	err := error(&refusedError{q.what, number})
	path, open := strings.CutPrefix(q.what, "open ")
	if open && errors.Is(err, fs.ErrPermission) && filepath.IsAbs(path) {
		// Users often name a file by its whole path, which a server that writes below
		// its --dir refuses.
		err = fmt.Errorf("%w; name a DESTINATION relative to the server's --dir, for example SERVER:%s", err, filepath.Base(path))
	}
	if q.command == opCheck && errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w: %w", errNoCheck, err)
	}
	return err
}

// data sends the content of the file.
func (c *client) data(f io.Reader, size int64) error {
	h := header{command: opWrite, length: writeLen}
	if err := c.ask(h, binary.LittleEndian.AppendUint64(nil, uint64(size)), "write the file"); err != nil {
		return err
	}
	// The connection reads directly into the memory that it sends from.
	n, err := c.conn.ReadFrom(onRead{io.LimitReader(f, size), func() { c.conn.SetWriteDeadline(time.Now().Add(c.timeout)) }})
	if errors.As(err, new(*net.OpError)) {
		return c.refusalReason(err)
	}
	if err == nil && n < size {
		err = fmt.Errorf("the file shrank while it was copied: expected %d bytes, found %d", size, n)
	}
	return err
}

// refusalReason returns the reason that the server sent for not receiving more, or
// err if it sent none.
func (c *client) refusalReason(err error) error {
	c.timeout = min(c.timeout, refusalTimeout)
	refusal := (*refusedError)(nil)
	for len(c.asked) > 0 {
		switch _, said := c.answer(); {
		case errors.As(said, &refusal):
			return said
		case said != nil:
			return err
		}
	}
	return err
}

// An onRead calls a function before each Read.
type onRead struct {
	r  io.Reader
	do func()
}

func (r onRead) Read(b []byte) (int, error) {
	r.do()
	return r.r.Read(b)
}
