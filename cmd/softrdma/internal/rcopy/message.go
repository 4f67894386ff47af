package rcopy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmanet"
)

// Commands. An answer is the command with replyFlag.
const (
	opOpen    = 1 // data: the file's mode; the name follows, padded with zeros
	opClose   = 2
	opWrite   = 3 // followed by the length in 64 bits, and then the content
	opCheck   = 4 // followed by a place in the file, a length, and the SHA-256 of the source there; see check.go
	replyFlag = 0x80
)

// A header begins each message of rcopy. rcopy uses the byte order of its host,
// softrdma always little-endian.
//
//	 0      1      2      4       8              16
//	+------+------+------+-------+---------------+
//	| ver  | cmd  | len  | data  |      id       |   little-endian
//	+------+------+------+-------+---------------+
//
// The length includes the header. In an answer, data is 0 or an errno of Linux.
//
// librdmacm's client sends id 0, and its server returns the id. A softrdma client opens
// a large file with an id that identifies its source, see sourceKey. A server that has
// a part of it from an earlier copy adds the length of that part to the id in its
// answer, and the client sends the rest.
type header struct {
	version uint8
	command uint8
	length  uint16
	data    uint32
	id      uint64
}

const (
	headerLen = 16
	writeLen  = headerLen + 8
	maxPath   = 4095 // what Linux opens

	// refusalTimeout is how long an end whose peer accepts no more data waits for the
	// answer that says why.
	refusalTimeout = 2 * time.Second
)

func (h *header) append(b []byte) []byte {
	b = append(b, h.version, h.command)
	b = binary.LittleEndian.AppendUint16(b, h.length)
	b = binary.LittleEndian.AppendUint32(b, h.data)
	return binary.LittleEndian.AppendUint64(b, h.id)
}

func parseHeader(b []byte) (header, error) {
	h := header{
		b[0], b[1], binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]),
	}
	if h.version != 0 || h.length < headerLen {
		return h, cli.PeerErrorf("expected a message of rcopy, version 0 and %d bytes or more, found version %d and %d bytes", headerLen, h.version, h.length)
	}
	return h, nil
}

// A stream is a connection with a limit for the time in which the peer is silent.
type stream struct {
	conn    *rdmanet.Conn
	timeout time.Duration
}

func newStream(conn *rdmanet.Conn, timeout time.Duration) stream {
	return stream{conn, timeout}
}

// Each Read and each Write may take the timeout.
func (s stream) Read(b []byte) (int, error) {
	s.conn.SetReadDeadline(time.Now().Add(s.timeout))
	return s.conn.Read(b)
}

func (s stream) Write(b []byte) (int, error) {
	s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	return s.conn.Write(b)
}

// failed explains an error of the stream. After a timeout, closing must not wait for
// the peer again.
func (s stream) failed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.conn.SetLinger(0)
	}
	return cli.StreamError(err)
}

// header reads a message's header. It returns io.EOF if the peer has ended.
func (s stream) header() (header, error) {
	var b [headerLen]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = errTruncated
		}
		return header{}, err
	}
	return parseHeader(b[:])
}

// errTruncated says that the peer ended in the middle of a message.
var errTruncated = cli.PeerErrorf("the peer ended the connection in the middle of a copy")

// errnos maps the numbers in answers, which are Linux errnos on every system, to
// errors.
var errnos = []struct {
	number uint32
	is     error
	words  string
}{
	{1, syscall.EPERM, "operation not permitted"},
	{2, fs.ErrNotExist, "no such file or directory"},
	{5, syscall.EIO, "input/output error"},
	{12, syscall.ENOMEM, "out of memory"},
	{13, fs.ErrPermission, "permission denied, or outside of the server's --dir"},
	{16, errBusy, "another file is open"},
	{20, syscall.ENOTDIR, "not a directory"},
	{21, syscall.EISDIR, "is a directory"},
	{22, syscall.EINVAL, "invalid argument"},
	{26, syscall.ETXTBSY, "file is being executed"},
	{27, syscall.EFBIG, "file too large"},
	{28, syscall.ENOSPC, "no space left on device"},
	{74, errDiffers, "what it has differs from the source"},
	{30, syscall.EROFS, "read-only file system"},
	{36, syscall.ENAMETOOLONG, "file name too long"},
}

var errBusy = errors.New("another file is open")

// errnoOf returns the number of an error in an answer.
func errnoOf(err error) uint32 {
	for _, e := range errnos {
		if errors.Is(err, e.is) {
			return e.number
		}
	}
	return 5
}

// A refusedError says why the server refused a command.
type refusedError struct {
	what   string
	number uint32
}

func (e *refusedError) Error() string {
	for _, r := range errnos {
		if r.number == e.number {
			return fmt.Sprintf("the server cannot %s: %s (errno %d)", e.what, r.words, e.number)
		}
	}
	return fmt.Sprintf("the server cannot %s: errno %d of Linux", e.what, int32(e.number))
}

// Is reports whether the server refused because of target.
func (e *refusedError) Is(target error) bool {
	for _, r := range errnos {
		if r.number == e.number {
			return r.is == target
		}
	}
	return false
}
