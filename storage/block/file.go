package block

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"
)

// FileConfig says how OpenFile opens a file.
type FileConfig struct {
	// Size makes a file that does not exist, and enlarges a smaller one, to this many bytes. 0 leaves
	// the file as it is. A device cannot be enlarged.
	Size int64

	BlockSize int // 0 means 512
	ReadOnly  bool

	// Direct bypasses the system's page cache (O_DIRECT of Linux). Writes are faster, and reads of what
	// the cache would have are slower. The block size must be a multiple of what the file system and its
	// device take, often 512 or 4,096. Other systems return an error that wraps errors.ErrUnsupported.
	Direct bool
}

// A File is a Backend in a file or a block device. Written bytes are in the system's page cache until
// Flush, or in the device's cache with FileConfig.Direct.
type File struct {
	f      *os.File
	size   int64
	block  int
	direct bool
}

// OpenFile opens a file or a block device. Bytes beyond the last whole block are left out. A file that is made
// has at least one block.
func OpenFile(path string, cfg FileConfig) (_ *File, err error) {
	if cfg.BlockSize == 0 {
		cfg.BlockSize = 512
	}
	if cfg.Size > 0 && cfg.Size < int64(cfg.BlockSize) && !cfg.ReadOnly {
		return nil, fmt.Errorf("%s: %w", path, CheckSize(cfg.Size, cfg.BlockSize))
	}
	// Opening a FIFO would wait, and opening other devices may have effects.
	info, err := os.Stat(path)
	if err == nil && (info.Mode()&(os.ModeCharDevice|os.ModeNamedPipe|os.ModeSocket) != 0 || info.IsDir()) {
		return nil, fmt.Errorf("%s: expected a file or a block device, found one of mode %v", path, info.Mode())
	}
	flags := os.O_RDWR
	switch {
	case cfg.ReadOnly:
		flags = os.O_RDONLY
	case cfg.Size > 0:
		flags |= os.O_CREATE
	}
	if cfg.Direct {
		if directFlag == 0 {
			return nil, fmt.Errorf("%s: access without the page cache: %w", path, errors.ErrUnsupported)
		}
		flags |= directFlag
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
		if info != nil && info.Mode()&os.ModeDevice != 0 {
			return nil, fmt.Errorf("%s: size of the device: expected at most %d bytes, found %d", path, size, cfg.Size)
		}
		if err := f.Truncate(cfg.Size); err != nil {
			return nil, err
		}
		size = cfg.Size
	}
	size -= size % int64(cfg.BlockSize)
	if err := CheckSize(size, cfg.BlockSize); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := &File{f, size, cfg.BlockSize, cfg.Direct}
	if cfg.Direct {
		if _, err := file.ReadAt(make([]byte, cfg.BlockSize), 0); err != nil {
			return nil, fmt.Errorf("%s: blocks of %d bytes without the page cache: %w", path, cfg.BlockSize, err)
		}
	}
	return file, nil
}

// ReadAt implements Backend.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.aligned(b, func(part []byte, at int) (int, error) {
		n, err := f.f.ReadAt(part, off+int64(at))
		if unsafe.SliceData(part) != unsafe.SliceData(b) {
			copy(b[at:], part[:n])
		}
		return n, err
	})
	if errors.Is(err, io.EOF) && n < len(b) {
		err = io.ErrUnexpectedEOF // the file was cut
	}
	return n, err
}

// WriteAt implements Backend.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	return f.aligned(b, func(part []byte, at int) (int, error) {
		if unsafe.SliceData(part) != unsafe.SliceData(b) {
			copy(part, b[at:])
		}
		return f.f.WriteAt(part, off+int64(at))
	})
}

// alignment is that of memory for direct access, in bytes. No device asks for more than a page.
const alignment = 4096

// bounces has memory for direct access from and to memory that is not aligned.
var bounces = sync.Pool{New: func() any {
	b := make([]byte, len(zeros)+alignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % alignment
	b = b[skip:][:len(zeros)]
	return &b
}}

// aligned calls access for b, or for parts of b with memory in place of them that the device can access.
func (f *File) aligned(b []byte, access func(part []byte, at int) (int, error)) (int, error) {
	if !f.direct || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment == 0 {
		return access(b, 0)
	}
	memory := bounces.Get().(*[]byte)
	defer bounces.Put(memory)
	for done := 0; done < len(b); {
		n, err := access((*memory)[:min(len(b)-done, len(*memory))], done)
		if done += n; err != nil {
			return done, err
		}
	}
	return len(b), nil
}

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
		done, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
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
