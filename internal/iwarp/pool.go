package iwarp

// arenaLen is the length of an arena: two of the longest FPDUs of READ responses, which are
// copied, and the headers of many others.
const arenaLen = 136 << 10

// batchLen is the approximate maximum of bytes that one call of Next returns.
const batchLen = 128 << 10

// maxPieces is the maximum of pieces that one call of Next returns. It is below the limit of
// system calls (IOV_MAX is 1024).
const maxPieces = 512

// An arena is the memory of a batch: the built bytes, and the list of their frames.
type arena struct {
	b    []byte
	list []frame
}

// A Pool lends the memory in which FPDUs are built. A stream holds some from Next until all of
// it was sent, so a pool that a lane's streams share grows to one arena per stream with a full
// socket. One goroutine at a time may use it.
type Pool struct{ free []*arena }

func (p *Pool) get() *arena {
	if n := len(p.free); n > 0 {
		a := p.free[n-1]
		p.free = p.free[:n-1]
		return a
	}
	return &arena{b: make([]byte, arenaLen)}
}

func (p *Pool) put(a *arena) { p.free = append(p.free, a) }

// Trim keeps at most n unused arenas.
func (p *Pool) Trim(n int) {
	for len(p.free) > n {
		p.free[len(p.free)-1] = nil
		p.free = p.free[:len(p.free)-1]
	}
}

// Out is bytes to send, as pieces in order: headers, copies, and registered memory. The
// slice is reused by the next call; the pieces are valid until Sent.
type Out struct {
	Pieces [][]byte
	Len    int // sum of their lengths
}

func (o *Out) reset() { o.Pieces, o.Len = o.Pieces[:0], 0 }

func (o *Out) add(b []byte) {
	o.Pieces = append(o.Pieces, b)
	o.Len += len(b)
}
