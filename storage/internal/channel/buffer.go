package channel

import "softrdma/storage/internal/buffers"

// A Buffer is registered memory for local use. Its sizes are powers of two.
type Buffer = buffers.Buffer

// Buffer returns a buffer of at least n bytes whose contents are arbitrary. It waits while
// Config.Memory is in use, and returns the connection's error if it ends. The caller gives the
// buffer back with Put. A caller must not wait for one while it has another.
func (c *Conn) Buffer(n int) (*Buffer, error) {
	b, err := c.pool.Get(c.memory, n, c.failed)
	if b == nil && err == nil {
		err = c.Err()
	}
	return b, err
}

// Put gives a buffer back.
func (c *Conn) Put(b *Buffer) { c.pool.Put(b) }
