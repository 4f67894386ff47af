package block

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// FileConfig says how OpenFile opens a file.
type FileConfig struct {
	// Size makes a file that does not exist, and enlarges a smaller one, to this many bytes. 0 leaves
	// the file as it is.
	Size int64

	BlockSize int // 0 means 512
	ReadOnly  bool
}

// A File is a Backend in a file or a block device. Written bytes are in the system's page cache until
// Flush.
type File struct {
	f     *os.File
	size  int64
	block int
}

// OpenFile opens a file or a block device. Bytes beyond the last whole block are left out.
func OpenFile(path string, cfg FileConfig) (_ *File, err error) {
	if cfg.BlockSize == 0 {
		cfg.BlockSize = 512
	}
	flags := os.O_RDWR
	switch {
	case cfg.ReadOnly:
		flags = os.O_RDONLY
	case cfg.Size > 0:
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	size, err := f.Seek(0, io.SeekEnd) // also of a block device
	if err != nil {
		return nil, err
	}
	if cfg.Size > size && !cfg.ReadOnly {
		if err := f.Truncate(cfg.Size); err != nil {
			return nil, err
		}
		size = cfg.Size
	}
	size -= size % int64(cfg.BlockSize)
	if err := CheckSize(size, cfg.BlockSize); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{f, size, cfg.BlockSize}, nil
}

// ReadAt implements Backend.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if errors.Is(err, io.EOF) && n < len(b) {
		err = io.ErrUnexpectedEOF // the file was cut
	}
	return n, err
}

// WriteAt implements Backend.
func (f *File) WriteAt(b []byte, off int64) (int, error) { return f.f.WriteAt(b, off) }

// Flush implements Backend.
func (f *File) Flush() error { return f.f.Sync() }

// Trim implements Backend. A file gets a hole if the file system has holes, otherwise zeros.
func (f *File) Trim(off, n int64) error { return f.WriteZeroes(off, n, true) }

// zeros is what WriteZeroes writes where the system has no better way.
var zeros [64 << 10]byte

// WriteZeroes implements Backend.
func (f *File) WriteZeroes(off, n int64, mayTrim bool) error {
	if n <= 0 {
		return nil
	}
	if done, err := zeroRange(f.f, off, n, mayTrim); done || err != nil {
		return err
	}
	for n > 0 {
		done, err := f.f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(done), n-int64(done)
	}
	return nil
}

// Size implements Backend.
func (f *File) Size() int64 { return f.size }

// BlockSize implements Backend.
func (f *File) BlockSize() int { return f.block }

// Blocks implements Backend: accesses may wait for the disk.
func (f *File) Blocks() bool { return true }

// Close flushes and closes the file.
func (f *File) Close() error { return errors.Join(f.Flush(), f.f.Close()) }
