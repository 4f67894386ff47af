package tcp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"syscall"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// The socket of a stream whose connection another process has carries chunks: a kind, a length of
// 24 bits, and so many bytes. The relay begins with opened or failed, and ends with ended or failed;
// an end without either means that the relay was killed. A process shuts its direction down to end
// it, and closes the socket to end the stream. If it does that within a chunk, it resets the stream.
const (
	chunkData = iota
	chunkOpened
	chunkEnded // by the peer, in order
	chunkFailed
)

const (
	chunkHeader  = 4
	maxChunk     = 1 << 20 // of data
	relayBuffer  = 64 << 10
	maxTLSRecord = 16 << 10 // RFC 8446 5.1
	maxControl   = 4 << 10  // of a chunk of another kind
	maxText      = 1 << 10  // of an error
)

func putChunk(b []byte, kind, length int) { binary.BigEndian.PutUint32(b, uint32(kind<<24|length)) }

func parseChunk(b []byte) (kind, length int) {
	x := binary.BigEndian.Uint32(b)
	return int(x >> 24), int(x & (1<<24 - 1))
}

// opened is the body of chunkOpened.
type opened struct{ Local, Remote netip.AddrPort }

// broken is the body of chunkFailed: an error, which it wraps as far as the system's number.
type broken struct {
	Detail reason.Detail // of a link.Failure
	Errno  syscall.Errno `json:",omitempty"`
	Text   string
}

func brokenBy(err error) *broken {
	b := &broken{Text: err.Error()}
	var f *link.Failure
	if errors.As(err, &f) {
		b.Detail, b.Text = f.Detail, f.Err.Error()
	}
	_ = errors.As(err, &b.Errno)
	b.Text = b.Text[:min(len(b.Text), maxText)]
	return b
}

// Error returns the text of the error.
func (b *broken) Error() string { return b.Text }

// Unwrap returns the number of the system's error.
func (b *broken) Unwrap() error {
	if b.Errno == 0 {
		return nil
	}
	return b.Errno
}

// err returns the error that broke the stream.
func (b *broken) err() error {
	if b.Detail.Reason != reason.None {
		return &link.Failure{Detail: b.Detail, Err: b}
	}
	return b
}

// controlChunk returns a chunk with a body in JSON.
func controlChunk(kind int, body any) []byte {
	text, err := json.Marshal(body)
	if err != nil || len(text) > maxControl {
		text = []byte("{}")
	}
	b := make([]byte, chunkHeader, chunkHeader+len(text))
	putChunk(b, kind, len(text))
	return append(b, text...)
}

// errRelayLost is what a stream has failed with if the process that has its connection ends.
func errRelayLost() error {
	return &link.Failure{
		Detail: reason.Detail{Reason: reason.StreamLost},
		Err:    errors.New("the process with the connection's TLS keys has ended"),
	}
}

// smallChunk is the length up to which chunks are copied together to be written at once.
const smallChunk = 8 << 10

// unchunk passes the data of chunks on to write. It returns write's error, io.EOF at the end, and
// io.ErrUnexpectedEOF at an end within a chunk.
func unchunk(from io.Reader, write func([]byte) error) error {
	b, left := make([]byte, relayBuffer), 0
	var header []byte
	for {
		n, err := from.Read(b)
		var out []byte // is in b, and grows over the headers that follow it
		for in := b[:n]; len(in) > 0; {
			if left == 0 {
				k := min(chunkHeader-len(header), len(in))
				if header, in = append(header, in[:k]...), in[k:]; len(header) == chunkHeader {
					_, left = parseChunk(header)
					header = header[:0]
				}
				continue
			}
			k := min(left, len(in))
			if len(out) > 0 && k > smallChunk {
				if err := write(out); err != nil {
					return err
				}
				out = nil
			}
			if len(out) == 0 {
				out = in[:k]
			} else {
				out = append(out, in[:k]...)
			}
			in, left = in[k:], left-k
		}
		if len(out) > 0 {
			if err := write(out); err != nil {
				return err
			}
		}
		switch {
		case err != nil && (left > 0 || len(header) > 0):
			return io.ErrUnexpectedEOF
		case err != nil:
			return io.EOF
		}
	}
}
