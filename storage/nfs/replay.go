package nfs

import (
	"bytes"
	"hash/maphash"
	"net/netip"
	"sync"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

// Limits of what is kept of replies.
const (
	maxReplays = 512  // calls of a client: several times what it has in flight
	maxClients = 256  // addresses
	maxSummed  = 4096 // bytes of a call that are compared, by a sum
)

// replays keeps the replies to calls that change something. A client that has connected again repeats the
// calls whose replies it did not get. Those that were executed are answered with the reply of then, and not
// executed again: a REMOVE would report that there is no such file (RFC 1813 4.1, the duplicate request
// cache). It is lost with the server.
type replays struct {
	seed maphash.Seed

	mu      sync.Mutex
	clients map[netip.Addr]*history
	clock   uint64 // calls
}

// A history has the last calls of a client. Ports are not compared: a client has a new one after it has
// connected again.
type history struct {
	calls map[callKey]*replay
	last  [maxReplays]callKey
	next  int
	used  uint64 // when, by the clock
}

// A callKey names a call of a client.
type callKey struct {
	xid, procedure uint32
	length         int
	sum            uint64
}

// A replay is a call that is executed, or was.
type replay struct {
	done  chan struct{} // closed with the reply
	reply []byte
	err   error
}

func newReplays() replays {
	return replays{seed: maphash.MakeSeed(), clients: make(map[netip.Addr]*history)}
}

// do executes a call of a client, or answers it with the reply to the same call. A call whose first is
// being executed waits for that reply. Calls of unknown clients are always executed.
func (r *replays) do(client netip.AddrPort, h wire.Call, call, reply []byte, execute func() (int, error)) (int, error) {
	if !client.IsValid() {
		return execute()
	}
	key := callKey{h.XID, h.Procedure, len(call), maphash.Bytes(r.seed, call[:min(len(call), maxSummed)])}
	r.mu.Lock()
	of := r.history(client.Addr().Unmap())
	if first := of.calls[key]; first != nil {
		r.mu.Unlock()
		<-first.done
		if first.err != nil {
			return 0, first.err
		}
		if len(first.reply) > len(reply) {
			return 0, rpcrdma.ErrReplySize
		}
		return copy(reply, first.reply), nil
	}
	p := &replay{done: make(chan struct{})}
	delete(of.calls, of.last[of.next])
	of.calls[key], of.last[of.next] = p, key
	of.next = (of.next + 1) % maxReplays
	r.mu.Unlock()

	n, err := execute()
	p.reply, p.err = bytes.Clone(reply[:n]), err
	close(p.done)
	if err != nil { // nothing was answered, so a repeated call is executed
		r.mu.Lock()
		if of.calls[key] == p {
			delete(of.calls, key)
		}
		r.mu.Unlock()
	}
	return n, err
}

// history returns the history of a client. That of the client which has called nothing for the longest
// time makes room for a new one.
func (r *replays) history(client netip.Addr) *history {
	r.clock++
	h := r.clients[client]
	if h == nil {
		if len(r.clients) >= maxClients {
			var oldest netip.Addr
			at := r.clock
			for a, h := range r.clients {
				if h.used < at {
					oldest, at = a, h.used
				}
			}
			delete(r.clients, oldest)
		}
		h = &history{calls: make(map[callKey]*replay)}
		r.clients[client] = h
	}
	h.used = r.clock
	return h
}
