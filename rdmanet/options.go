package rdmanet

import (
	"time"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The defaults of Options. DefaultBuffer is what a buffer begins with.
const (
	DefaultBuffer    = 1 << 20
	DefaultKeepAlive = 15 * time.Second
	DefaultLinger    = 5 * time.Second

	DefaultMappedMemory = 16
)

// minBuffer is the smallest buffer of either kind.
const minBuffer = 8 << 10

// Options tune connections. The zero value is right for most programs.
type Options struct {
	// ReadBuffer and WriteBuffer are the sizes in bytes of the registered memory
	// that a connection receives into and sends from, at least 8 KiB; 0 means
	// DefaultBuffer, and as much as a long path needs while it needs it. A size that
	// the program chooses does not change.
	ReadBuffer, WriteBuffer int

	// KeepAlive is the period of probes to the peer's device; 0 means
	// DefaultKeepAlive, and a negative value turns them off. The connection fails
	// if an answer takes longer than 14 s.
	KeepAlive time.Duration

	// Linger is how long Close waits for the peer's device to acknowledge written
	// data; 0 means DefaultLinger, and with a negative value Close does not wait:
	// see Conn.Close.
	Linger time.Duration

	// Spin is how long a waiting call polls for packets before it sleeps; 0 means
	// verbs.DefaultSpin, and with a negative value it does not poll.
	Spin time.Duration

	// MappedMemory is how many ranges of its memory the peer may map at a time
	// (riomap, Conn.MapMemory); 0 means DefaultMappedMemory, and a negative value
	// means none.
	MappedMemory int
}

func or[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return max(v, 0)
}

// sizes returns the sizes of half the receive buffer and of the send buffer in
// bytes.
func (o *Options) sizes() (half, send int) {
	return max(or(o.ReadBuffer, DefaultBuffer), minBuffer) / 2, max(or(o.WriteBuffer, DefaultBuffer), minBuffer)
}

func (o *Options) keepAlive() time.Duration { return or(o.KeepAlive, DefaultKeepAlive) }
func (o *Options) linger() time.Duration    { return or(o.Linger, DefaultLinger) }
func (o *Options) spin() time.Duration      { return or(o.Spin, verbs.DefaultSpin) }

// iomaps returns the number of entries in the table of mapped memory.
func (o *Options) iomaps() int {
	_, n := rsocket.ScaleIomaps(or(o.MappedMemory, DefaultMappedMemory))
	return n
}
