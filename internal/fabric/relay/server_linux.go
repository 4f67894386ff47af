package relay

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"sync"
	"time"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
)

// A Host is the fabric that programs on other hosts call.
type Host interface {
	// Call gives the relay its end of a connection to the fabric, for a program at an address.
	// ending is called before the relay closes the connection, with the reason.
	Call(from netip.AddrPort, program string) (conn Conn, ending func(reason.Detail), err error)

	// Dropped tells of packets that were refused or ignored. Any goroutine calls it.
	Dropped(from netip.AddrPort, d reason.Detail)
}

// A Server answers the calls of programs on other hosts.
type Server struct {
	host     Host
	headers  fabric.Headers
	listener *udp.Listener
	calls    trunk.Listener
	start    time.Time
	serving  sync.WaitGroup

	mu    sync.Mutex
	known map[caller]bool // whose relay runs
}

// A caller is the end of a session with a program.
type caller struct {
	from netip.AddrPort
	id   uint64
}

// Listen serves the calls for a fabric of a name at a local address until Close.
// Packets have headers.
func Listen(local netip.AddrPort, name string, secret []byte, headers fabric.Headers, h Host) (*Server, error) {
	l, err := udp.Listen(local)
	if err != nil {
		return nil, err
	}
	s := &Server{host: h, headers: headers, listener: l, start: time.Now(), known: make(map[caller]bool)}
	s.calls = trunk.Listener{Use: trunk.Program, Name: name, Secret: secret, Key: make([]byte, 32)}
	_, _ = rand.Read(s.calls.Key) // never fails
	s.serving.Go(s.listen)
	return s, nil
}

// Addr returns the local address.
func (s *Server) Addr() netip.AddrPort { return s.listener.Addr() }

// Close ends the server, and waits for its relays: the host ends their connections first.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.serving.Wait()
	return err
}

// listen reads the packets of those who have no relay yet.
func (s *Server) listen() {
	var b [trunk.MaxPacket + 1]byte
	for {
		n, from, to, err := s.listener.Receive(b[:])
		if err != nil {
			return
		}
		address, _ := from.MarshalBinary()
		call, answer, why := s.calls.Receive(time.Since(s.start), address, b[:n])
		if call != nil {
			if why = s.accept(call, from, to, slices.Clone(b[:n])); why.Reason != reason.None {
				answer = s.calls.Refuse(b[:n], why)
			}
		}
		if answer != nil {
			s.listener.Send(answer, to, from)
		}
		if why.Reason != reason.None {
			s.host.Dropped(from, remote(why))
		}
	}
}

// accept begins a relay for a call, unless it runs already.
func (s *Server) accept(call *trunk.Call, from netip.AddrPort, to netip.Addr, first []byte) (why reason.Detail) {
	key := caller{from, call.Far}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] {
		return why
	}
	full := reason.Detail{Reason: reason.FabricRemoteFull, Expected: maxCalls, Found: uint64(len(s.known))}
	if len(s.known) >= maxCalls {
		return full
	}
	socket, err := s.listener.Connect(to, from)
	if err != nil {
		return full
	}
	conn, ending, err := s.host.Call(from, call.Who.Port)
	if err != nil {
		socket.Close()
		return full
	}
	id := call.ID
	r, err := newRelay(&config{
		conn: conn, socket: socket, server: true, headers: s.headers, first: first, ready: func() {}, ending: ending,
		dropped: func(d reason.Detail) { s.host.Dropped(from, d) },
		trunk:   trunk.Config{Secret: s.calls.Secret, Self: trunk.Peer{Fabric: s.calls.Name}, Random: func() uint64 { return id }},
	})
	if err != nil {
		socket.Close()
		ending(full)
		_ = conn.Close()
		return full
	}
	s.known[key] = true
	s.serving.Go(func() {
		r.run()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, key)
	})
	return why
}

// maxCalls bounds the programs of other hosts.
const maxCalls = 4096
