package pingpong

import "fmt"

const (
	fillByte = 0x7b // the Linux tools fill messages with it
	pageSize = 4096 // with -c they expect zero at the start of each page
)

// A payload is the memory of a pingpong's messages and the content that they must have.
//
// With -c the server expects what ibv_*_pingpong -c sends: zero at the start of each
// page. The client fills the rest with bytes that differ from message to message, and
// expects all of it back.
type payload struct {
	memory []byte // received messages; with -c followed by the client's own
	size   int
	grh    int // length of the GRH before a received datagram
	sendAt int
	client bool
	shared bool // many queue pairs share the memory, so all messages are equal
}

func newPayload(p *command) payload {
	b := payload{size: int(p.size), client: p.host != "", shared: p.service == "srq"}
	if p.service == "ud" {
		b.grh = grhLen
	}
	b.sendAt = b.grh
	n := b.recvLen()
	if p.check && b.client {
		// Separate from the receive memory: a message that was not received must not
		// look correct.
		b.sendAt = n
		n += b.size
	}
	b.memory = make([]byte, n)
	for i := range b.memory {
		b.memory[i] = fillByte
	}
	if p.check && b.client && b.shared {
		b.fill(0)
	}
	return b
}

// recvLen returns the length of the memory for a received message.
func (p *payload) recvLen() int { return p.grh + p.size }

// fillNext fills the client's message n, which differs from the one before.
func (p *payload) fillNext(n int) {
	if p.client && !p.shared {
		p.fill(n)
	}
}

func (p *payload) fill(n int) {
	m := p.memory[p.sendAt : p.sendAt+p.size]
	for i := range m {
		m[i] = byte(fillByte + 3*n + 7*i + i>>8)
	}
	for i := 0; i < len(m); i += pageSize {
		m[i] = 0
	}
}

// check checks a received message.
func (p *payload) check() error {
	m := p.memory[p.grh:p.recvLen()]
	if p.client {
		for i, v := range p.memory[p.sendAt : p.sendAt+p.size] {
			if m[i] != v {
				return fmt.Errorf("invalid data in page %d: byte %d: expected %#02x, which was sent, found %#02x", i/pageSize, i, v, m[i])
			}
		}
		return nil
	}
	for i := 0; i < len(m); i += pageSize {
		if m[i] != 0 {
			return fmt.Errorf("invalid data in page %d: byte %d: expected 0, found %#02x (does the client have -c as well?)", i/pageSize, i, m[i])
		}
	}
	return nil
}
