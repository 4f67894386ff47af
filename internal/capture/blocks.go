package capture

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// maxBlock bounds one block of a file, and with it the memory that reading it
// takes. The longest packet that tools capture has 256 KiB.
const maxBlock = 512 << 10

// maxInterfaces bounds how many interfaces a file may describe.
const maxInterfaces = 4096

// Types of pcapng blocks that matter here; others are skipped.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockPacket     = 2
	blockSimple     = 3
	blockStatistics = 5
	blockEnhanced   = 6
)

// errCut is the error of a file that ends within a block. It is not
// io.ErrUnexpectedEOF itself, which the library takes for a good end where it
// comes between blocks.
var errCut = fmt.Errorf("file ends within a block: %w", io.ErrUnexpectedEOF)

// blocks is an io.Reader over a pcapng file that passes on only the blocks that
// a reader of packets needs, and none that is too long: the library believes
// the lengths that it reads.
type blocks struct {
	r          *bufio.Reader
	order      binary.ByteOrder
	left       int64 // bytes of the present block
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

// next looks at the head of the next block, which stays in the buffer, and
// either lets the block through or skips it.
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
