package rcopy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Before a copy continues an earlier one, the part that the server has is compared with the source: it may have been
// changed meanwhile, or may be that of another version of the source with the same length and time of change. The client
// sends checksums of short steps, some of them ahead of the answers, so that neither end is silent for long.

const (
	// checkSize is the length of a step in bytes. A server accepts maxCheck, which older clients send, after all data.
	checkSize = 4 << 20
	maxCheck  = 128 << 20

	checksAhead = 16
)

// checkLen is the length of the message.
const checkLen = headerLen + 8 + 8 + sha256.Size

var (
	errDiffers = errors.New("the copy differs from the source")
	errNoCheck = errors.New("the server has a part of the file and cannot compare it: its version of softrdma is too old")
)

// A compared is the length of the beginning of a version of the source that the server was found to have. It is not
// compared again after a lost connection: a long file would be read from its beginning each time.
type compared struct {
	key  uint64
	size int64
}

// check compares what the server has with the beginning of the file.
func (c *client) check(f io.ReaderAt, key uint64, size int64) error {
	at := int64(0)
	if c.compared.key == key {
		at = min(c.compared.size, size)
	}
	c.compared = compared{key, at}
	err := c.checkFrom(f, at, size)
	switch {
	case err == nil:
		c.compared.size = size
	case errors.Is(err, errDiffers): // the server drops all of it
		c.compared = compared{}
	}
	return err
}

// checkFrom compares a part of the file.
func (c *client) checkFrom(f io.ReaderAt, at, size int64) error {
	for ; at < size; at += checkSize {
		if err := c.settle(checksAhead - 1); err != nil {
			return err
		}
		n := min(checkSize, size-at)
		sum, err := checksum(f, at, n)
		if err != nil {
			return err
		}
		b := binary.LittleEndian.AppendUint64(nil, uint64(at))
		b = append(binary.LittleEndian.AppendUint64(b, uint64(n)), sum[:]...)
		if err := c.ask(header{command: opCheck, length: checkLen}, b, "compare the copy"); err != nil {
			return err
		}
	}
	return c.settle(0)
}

// check compares a step of the file that is being received. One that differs is not continued
// again.
func (s *server) check(h header) error {
	if h.length != checkLen {
		return fmt.Errorf("expected a message of %d bytes with a checksum, found %d: %w", checkLen, h.length, syscall.EINVAL)
	}
	var b [checkLen - headerLen]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return err
	}
	at, n := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	switch {
	case s.file == nil:
		return fmt.Errorf("no file is open: %w", syscall.EINVAL)
	case n > maxCheck || at > uint64(s.file.size) || n > uint64(s.file.size)-at:
		return fmt.Errorf("check of %d bytes at %d, there are %d: %w", n, at, s.file.size, syscall.EINVAL)
	}
	sum, err := checksum(s.file.file, int64(at), int64(n))
	if err == nil && sum != [sha256.Size]byte(b[16:]) {
		s.file.keep = false
		err = fmt.Errorf("%s, %d bytes at %d: %w", s.file.path(), n, at, errDiffers)
	}
	return err
}

// checksum returns the checksum of n bytes of a file.
func checksum(f io.ReaderAt, at, n int64) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	k, err := io.Copy(h, io.NewSectionReader(f, at, n))
	if err == nil && k < n {
		err = io.ErrUnexpectedEOF
	}
	h.Sum(sum[:0])
	return sum, err
}
