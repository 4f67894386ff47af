// Package block has the contract between protocols that serve block devices and what stores the
// blocks, with two implementations: memory and a file or block device.
package block

import (
	"fmt"
	"io"
)

// A Backend stores the bytes of a device. The methods may be called from any goroutine, also for
// ranges that overlap, in which case the result is that of one order of each block's accesses.
// Offsets and lengths are multiples of BlockSize and lie within Size; callers check that.
//
// ReadAt fills the whole buffer or returns an error, and WriteAt likewise. Neither keeps the buffer.
type Backend interface {
	io.ReaderAt
	io.WriterAt

	// Flush returns when everything that was written before is on the medium.
	Flush() error

	// Trim says that n bytes are not needed any more. They read as zeros afterwards.
	Trim(off, n int64) error

	// WriteZeroes makes n bytes zeros. It may trim them if mayTrim.
	WriteZeroes(off, n int64, mayTrim bool) error

	Size() int64    // bytes, a multiple of BlockSize
	BlockSize() int // bytes, a power of two from 512

	// Blocks reports whether an access can block for long, as one of a disk can. A protocol calls
	// those on a goroutine of their own.
	Blocks() bool
}

// ReadFull fills the whole buffer from a backend or returns an error. A buffer often has the data of others,
// so protocols do not rely on the backend's contract.
func ReadFull(b Backend, p []byte, off int64) error {
	n, err := b.ReadAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// An Extent is a range of bytes.
type Extent struct{ Offset, Length int64 }

// A Resident is a Backend whose bytes are in memory, so a protocol can register it and send them from
// there. Blocks reports false.
type Resident interface {
	Backend

	// Memory returns the memory of Pin. It stays until the backend is closed, which fails while a region
	// is registered in it.
	Memory() []byte

	// Pin appends to at where n bytes at off are in Memory, in their order. These bytes do not change until
	// Unpin, also if the same blocks are written meanwhile: that is the order in which the read was first.
	// Pin reports false, and pins nothing, if it needs more pieces than at has room for, or if too much
	// is pinned. The caller uses ReadAt then.
	Pin(off, n int64, at []Extent) ([]Extent, bool)

	// Unpin ends a Pin of the same n bytes at off, which are at the returned pieces.
	Unpin(off, n int64, at []Extent)
}

// CheckSize returns an error if a size is not that of a device.
func CheckSize(size int64, block int) error {
	if block < 512 || block > 65536 || block&(block-1) != 0 {
		return fmt.Errorf("block size: expected a power of two from 512 to 65536, found %d", block)
	}
	if size < int64(block) {
		return fmt.Errorf("size: expected at least a block of %d bytes, found %d", block, size)
	}
	if size%int64(block) != 0 {
		return fmt.Errorf("size: expected a multiple of %d bytes, found %d", block, size)
	}
	return nil
}
