package pmix

import (
	"fmt"
	"math"
)

// The commands of requests, as OpenPMIx numbers them.
const (
	commandCommit   = 2
	commandFence    = 3
	commandGet      = 4
	commandFinalize = 5
)

// The scopes of values: programs on the same host, and on others. A value for all has both.
const (
	scopeLocal  = 1
	scopeRemote = 2
)

const (
	everyRank   = math.MaxUint32 - 1
	collectData = "pmix.collect" // tells a fence to bring the values of all hosts to each
)

func (s *Server) request(command uint8) *packer {
	p := &packer{format: s.format}
	p.one()
	p.uint8(command)
	return p
}

func (s *Server) commit(key string, value []byte) []byte {
	kv := &packer{format: s.format}
	kv.one()
	kv.string(key)
	kv.uint16(typeByteObject)
	kv.bytes(value)

	p := s.request(commandCommit)
	for _, scope := range []uint8{scopeLocal, scopeRemote} {
		p.one()
		p.uint8(scope)
		p.one()
		p.uint8(nonDescribed)
		p.bytes(kv.b)
	}
	return p.b
}

func (s *Server) fence() []byte {
	p := s.request(commandFence)
	p.one()
	p.size(1)
	p.one()
	p.string(s.Namespace)
	p.uint32(everyRank)
	p.one()
	p.size(1)
	p.one()
	p.string(collectData)
	p.uint32(0) // no flags
	p.uint16(typeBool)
	p.uint8(1)
	return p.b
}

func (s *Server) get(rank uint32, key string) []byte {
	p := s.request(commandGet)
	p.one()
	p.string(s.Namespace)
	p.one()
	p.uint32(rank)
	p.one()
	p.size(0) // no directives
	p.one()
	p.string(key)
	return p.b
}

// Commit publishes a value of this program.
func (c *Client) Commit(key string, value []byte) error {
	if len(key) > maxName {
		return fmt.Errorf("pmix: key of %d bytes, expected at most %d", len(key), maxName)
	}
	_, err := c.ask(c.server.commit(key, value))
	return err
}

// Fence waits until all programs of the job have called it. It brings their committed values
// to each host.
func (c *Client) Fence() error {
	_, err := c.ask(c.server.fence())
	return err
}

// Get returns a value that a program of the job has committed before a Fence.
func (c *Client) Get(rank uint32, key string) ([]byte, error) {
	u, err := c.ask(c.server.get(rank, key))
	if err != nil {
		return nil, err
	}
	return u.find(c.server.Namespace, rank, key)
}

// find reads the values of programs until it has found one.
func (u *unpacker) find(namespace string, rank uint32, key string) ([]byte, error) {
	for u.more() {
		u.one()
		values := &unpacker{format: u.format, b: u.bytes()}
		if u.err != nil {
			break
		}
		values.one()
		name, r := values.string(), uint32(values.uint(4))
		for values.more() {
			values.one()
			k, kind := values.string(), values.uint(2)
			if name != namespace || r != rank || k != key {
				values.skip(kind)
				continue
			}
			if kind != typeByteObject {
				values.fail("value of type %d, expected type %d", kind, typeByteObject)
			}
			return values.bytes(), values.err
		}
		if values.err != nil {
			return nil, values.err
		}
	}
	if u.err != nil {
		return nil, u.err
	}
	return nil, fmt.Errorf("%w: answer without the value of %s of rank %d", ErrMessage, key, rank)
}

// Finalize tells the server that this program is done, and ends the connection. The program
// may then end at any time.
func (c *Client) Finalize() error {
	_, err := c.ask(c.server.request(commandFinalize).b)
	if e := c.Close(); err == nil {
		err = e
	}
	return err
}
