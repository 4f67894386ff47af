package capture

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// maxBlock is the maximum length of a block, which bounds the memory for reading
// it. Capture tools write packets of at most 256 KiB.
const maxBlock = 512 << 10

// maxInterfaces is the maximum number of interfaces that a file may describe.
const maxInterfaces = 4096

// Types of pcapng blocks that are read; others are skipped.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockPacket     = 2
	blockSimple     = 3
	blockStatistics = 5
	blockEnhanced   = 6
)

// errCut is returned for a file that ends within a block. It is not
// io.ErrUnexpectedEOF itself, because the library accepts that error between
// blocks as a normal end.
var errCut = fmt.Errorf("file ends within a block: %w", io.ErrUnexpectedEOF)

// blocks is an io.Reader over a pcapng file. It passes on only the blocks that
// are needed to read packets, and refuses blocks that are too long, because the
// library trusts the lengths in the file.
type blocks struct {
	r          *bufio.Reader
	order      binary.ByteOrder
	left       int64 // remaining bytes of the current block
	interfaces int
	cut        bool // the file ended within a block
}

func (b *blocks) Read(p []byte) (int, error) {
	for b.left == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err == io.EOF && b.left > 0 {
		b.cut, err = true, errCut
	}
	return n, err
}

// next peeks at the header of the next block and either passes the block on or
// skips it.
func (b *blocks) next() error {
	h, err := b.r.Peek(12)
	if len(h) < 8 {
		if len(h) > 0 {
			b.cut = true
			return errCut
		}
		return err
	}
	if binary.LittleEndian.Uint32(h) == blockSection && len(h) == 12 {
		b.order = binary.LittleEndian
		if binary.BigEndian.Uint32(h[8:]) == 0x1a2b3c4d {
			b.order = binary.BigEndian
		}
		b.interfaces = 0
	}
	if b.order == nil {
		return fmt.Errorf("pcapng: expected a section header, found block %#x", binary.LittleEndian.Uint32(h))
	}
	kind, n := b.order.Uint32(h), int64(b.order.Uint32(h[4:]))
	if n < 12 || n%4 != 0 {
		return fmt.Errorf("pcapng: block of %d bytes, expected at least 12 and a multiple of 4", n)
	}
	switch kind {
	case blockInterface:
		if b.interfaces++; b.interfaces > maxInterfaces {
			return fmt.Errorf("pcapng: more than %d interfaces", maxInterfaces)
		}
		fallthrough
	case blockSection, blockPacket, blockSimple, blockStatistics, blockEnhanced:
		if n > maxBlock {
			return fmt.Errorf("pcapng: block of %d bytes, expected at most %d", n, maxBlock)
		}
		b.left = n
		return nil
	}
	for n > 0 {
		k, err := b.r.Discard(int(min(n, 1<<20)))
		if err != nil {
			b.cut = true
			return errCut
		}
		n -= int64(k)
	}
	return nil
}
