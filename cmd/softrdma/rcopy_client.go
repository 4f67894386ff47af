package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"
)

// openSource opens the file that is to be copied.
func openSource(name string) (f *os.File, size int64, mode fs.FileMode, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, 0, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: expected a regular file, found %s", name, fileKind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, 0, 0, err
	}
	return f, info.Size(), info.Mode(), nil
}

// fileKind names what is not a regular file.
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

// modeRegular is S_IFREG of Linux: what the mode of a regular file begins with.
const modeRegular = 0o100000

// An rcopyClient is the end that sends a file.
type rcopyClient struct{ rcopyStream }

// send copies a file and tells how long the data took.
func (c *rcopyClient) send(f io.Reader, size int64, mode fs.FileMode, path string) (took time.Duration, err error) {
	if err := c.open(path, mode); err != nil {
		return 0, err
	}
	start := time.Now()
	// A file of no bytes is there when it is open: librdmacm's server refuses to
	// map none.
	if size > 0 {
		if err := c.data(f, size); err != nil {
			return 0, err
		}
	}
	took = time.Since(start)
	return took, c.ask(rcopyHeader{command: rcopyClose, length: rcopyHeaderLen}, nil, "close the file")
}

func (c *rcopyClient) open(path string, mode fs.FileMode) error {
	name := make([]byte, (len(path)+8)&^7)
	copy(name, path)
	h := rcopyHeader{command: rcopyOpen, length: uint16(rcopyHeaderLen + len(name)), data: modeRegular | uint32(mode.Perm())}
	return c.ask(h, name, "open "+path)
}

// ask sends a message and takes its answer.
func (c *rcopyClient) ask(h rcopyHeader, rest []byte, what string) error {
	if _, err := c.Write(append(h.append(nil), rest...)); err != nil {
		return err
	}
	return c.answer(h.command, what)
}

// answer takes the answer to a command.
func (c *rcopyClient) answer(command uint8, what string) error {
	h, err := c.header()
	switch {
	case errors.Is(err, io.EOF):
		return peerErrorf("the server ended the connection in place of an answer: expected it to %s", what)
	case err != nil:
		return err
	case h.command != command|rcopyReply || h.length != rcopyHeaderLen:
		return peerErrorf("expected answer %#02x of %d bytes, found %#02x of %d", command|rcopyReply, rcopyHeaderLen, h.command, h.length)
	case h.data != 0:
		return &rcopyRefusal{what, h.data}
	}
	return nil
}

// data sends the file's bytes.
func (c *rcopyClient) data(f io.Reader, size int64) error {
	h := rcopyHeader{command: rcopyWrite, length: rcopyWriteLen}
	if _, err := c.Write(binary.LittleEndian.AppendUint64(h.append(nil), uint64(size))); err != nil {
		return err
	}
	// Read by the connection, straight into the memory that it sends from.
	n, err := c.conn.ReadFrom(onRead{io.LimitReader(f, size), func() { c.conn.SetWriteDeadline(time.Now().Add(c.timeout)) }})
	if errors.As(err, new(*net.OpError)) {
		return c.lastWords(err)
	}
	if err == nil && n < size {
		err = fmt.Errorf("the file has become shorter: expected %d bytes, found %d", size, n)
	}
	if err != nil {
		return err
	}
	return c.answer(rcopyWrite, "write the file")
}

// lastWords gives, in place of the failure to send more data, what the server
// says for a reason.
func (c *rcopyClient) lastWords(err error) error {
	c.timeout = min(c.timeout, rcopyLastWords)
	refusal := (*rcopyRefusal)(nil)
	if said := c.answer(rcopyWrite, "write the file"); errors.As(said, &refusal) {
		return refusal
	}
	return err
}

// onRead calls a function before each Read.
type onRead struct {
	r  io.Reader
	do func()
}

func (r onRead) Read(b []byte) (int, error) {
	r.do()
	return r.r.Read(b)
}
