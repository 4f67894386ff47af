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

// A client is the end that sends a file.
type client struct{ stream }

// sourceKey identifies a version of a source, so that the server recognises a partial copy of
// it. It is never 0.
func sourceKey(f *os.File, info fs.FileInfo) (uint64, error) {
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return 0, err
	}
	host, _ := os.Hostname() // the rest also identifies it
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", host, path, info.Size(), info.ModTime().UnixNano()))
	return binary.LittleEndian.Uint64(sum[:]) | 1, nil
}

// A sent describes a copy.
type sent struct {
	from, size int64         // of the part that was sent: where it begins, and its length
	took       time.Duration // for the data
}

// send copies a file, starting where an earlier copy ended. If it fails, only from is set.
func (c *client) send(f *os.File, path string) (s sent, err error) {
	// The file may have changed since the connection before. The key and the length must be those of
	// one version, or the server would continue a part of another one.
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	var key uint64
	if info.Size() > syncSize {
		if key, err = sourceKey(f, info); err != nil {
			return s, err
		}
	}
	id, err := c.open(path, info.Mode(), key)
	if err != nil {
		return s, err
	}
	if had := id - key; key != 0 && had <= uint64(info.Size()) { // otherwise the server did not answer with an offset
		s.from = int64(had)
	}
	if _, err := f.Seek(s.from, io.SeekStart); err != nil {
		return s, err
	}
	start, size := time.Now(), info.Size()-s.from
	// Opening creates an empty file. librdmacm's server fails to map 0 bytes.
	if size > 0 {
		if err := c.data(f, size); err != nil {
			return s, err
		}
	}
	took := time.Since(start)
	if s.from > 0 {
		if err := c.check(f, info.Size()); err != nil {
			return s, err
		}
	}
	if _, err = c.ask(header{command: opClose, length: headerLen}, nil, "close the file"); err == nil {
		s.size, s.took = size, took
	}
	return s, err
}

func (c *client) open(path string, mode fs.FileMode, key uint64) (id uint64, err error) {
	name := make([]byte, (len(path)+8)&^7)
	copy(name, path)
	h := header{command: opOpen, length: uint16(headerLen + len(name)), data: modeRegular | uint32(mode.Perm()), id: key}
	id, err = c.ask(h, name, "open "+path)
	var refusal *refusedError
	if errors.As(err, &refusal) && errors.Is(refusal, fs.ErrPermission) && filepath.IsAbs(path) {
		// Users often name a file by its whole path, which a server that writes below
		// its --dir refuses.
		err = fmt.Errorf("%w; name a DESTINATION relative to the server's --dir, for example SERVER:%s", err, filepath.Base(path))
	}
	return id, err
}

// ask sends a message and returns the id of its answer.
func (c *client) ask(h header, rest []byte, what string) (id uint64, err error) {
	if _, err := c.Write(append(h.append(nil), rest...)); err != nil {
		return 0, err
	}
	return c.answer(h.command, what)
}

// answer receives the answer to a command and returns its id.
func (c *client) answer(command uint8, what string) (id uint64, err error) {
	h, err := c.header()
	switch {
	case err == io.EOF:
		return 0, cli.PeerErrorf("the server ended the connection instead of answering: expected it to %s", what)
	case err != nil:
		return 0, err
	case h.command != command|replyFlag || h.length != headerLen:
		return 0, cli.PeerErrorf("expected answer %#02x of %d bytes, found %#02x of %d", command|replyFlag, headerLen, h.command, h.length)
	case h.data != 0:
		return 0, &refusedError{what, h.data}
	}
	return h.id, nil
}

// data sends the content of the file.
func (c *client) data(f io.Reader, size int64) error {
	h := header{command: opWrite, length: writeLen}
	if _, err := c.Write(binary.LittleEndian.AppendUint64(h.append(nil), uint64(size))); err != nil {
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
	if err != nil {
		return err
	}
	_, err = c.answer(opWrite, "write the file")
	return err
}

// refusalReason returns the reason that the server sent for not receiving more data, or
// err if it sent none.
func (c *client) refusalReason(err error) error {
	c.timeout = min(c.timeout, refusalTimeout)
	refusal := (*refusedError)(nil)
	if _, said := c.answer(opWrite, "write the file"); errors.As(said, &refusal) {
		return refusal
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
