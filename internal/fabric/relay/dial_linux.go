package relay

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
)

// dialTime bounds the wait for an answer.
const dialTime = 8 * time.Second

// A Call names the fabric to attach to and the program that attaches.
type Call struct {
	Fabric  string // its name
	Program string // for people
	Secret  []byte // may be empty
	Headers fabric.Headers
}

// Dial relays between a connection and a fabric on another host. It returns when the fabric has
// accepted the call; done is closed when the relay has ended. The connection is the relay's, which
// closes it when the fabric does not answer any more.
func Dial(ctx context.Context, to netip.AddrPort, c *Call, conn Conn) (done <-chan struct{}, err error) {
	socket, err := udp.Open(netip.AddrPort{}, []netip.AddrPort{to})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ready, over := make(chan struct{}), make(chan struct{})
	r, err := newRelay(&config{
		conn: conn, socket: socket, headers: c.Headers, ready: func() { close(ready) }, ending: func(reason.Detail) {}, dropped: func(reason.Detail) {},
		trunk: trunk.Config{Secret: c.Secret, Random: random, Self: trunk.Peer{Process: random(), Fabric: c.Fabric, Port: c.Program}},
	})
	if err != nil {
		socket.Close()
		return nil, errors.Join(err, conn.Close())
	}
	var why reason.Detail
	go func() {
		defer close(over)
		why = r.run()
	}()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	select {
	case <-ready:
		return over, nil
	case <-over:
		return nil, why.Err()
	case <-ctx.Done():
	}
	_ = conn.Close() // ends the relay
	return nil, reason.Detail{Reason: reason.FabricRemoteSilent, Expected: uint64(dialTime), Found: uint64(time.Since(begin))}.Err()
}

// random returns a number that cannot be guessed.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}
