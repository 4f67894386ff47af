package attack_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/wire/iwarp"
	"softrdma/verbs"
)

// listeners returns configurations of iWARP listeners, with and without TLS.
func listeners(t *testing.T) map[string]honest.ServerConfig {
	secret, err := verbs.SharedSecret([]byte("thirty-two bytes of a test secret"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]honest.ServerConfig{
		"plain":      {Server: "iwarp:", Client: "iwarp:"},
		"TLS":        {Server: "iwarp:", Client: "iwarp:", Device: verbs.Config{TLS: secret}},
		"plain IPv6": {Server: "iwarp:::1", Client: honest.Same},
	}
}

// request returns the MPA request frame of a peer.
func request() []byte {
	b := make([]byte, iwarp.FrameLen+iwarp.EnhancedLen)
	f := iwarp.Frame{Flags: iwarp.FlagCRC | iwarp.FlagEnhanced, Revision: 2, Private: iwarp.EnhancedLen}
	f.Put(b)
	e := iwarp.Enhanced{IRD: 4, ORD: 4}
	e.Put(b[iwarp.FrameLen:])
	return b
}

// openings returns the data that unauthenticated peers send to a TCP port before they
// become silent or close the connection.
func openings() [][]byte {
	r := request()
	broken := append([]byte{}, r...)
	broken[len(broken)-1] ^= 0xff
	long := append([]byte{}, r...)
	long[18], long[19] = 0xff, 0xff // announces private data that does not follow
	return [][]byte{
		nil, {0}, r[:1], r[:iwarp.FrameLen-1], r[:iwarp.FrameLen], r[:len(r)-1], r, broken, long,
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), {22, 3, 1, 2, 0, 1}, {22, 3, 1, 0xff, 0xff}, {21, 3, 1, 0, 2, 2, 70},
	}
}

// knock opens a connection, sends b and leaves the connection open.
func knock(addr net.Addr, b []byte) (net.Conn, error) {
	c, err := net.Dial("tcp", addr.String())
	if err == nil && len(b) > 0 {
		_, err = c.Write(b)
	}
	return c, err
}

// An iWARP listener receives garbage, incomplete frames, requests without rsockets'
// private data, and silent connections, fewer than its maximum, while honest peers
// connect.
func TestAttackGarbageOnStreamListeners(t *testing.T) {
	for name, cfg := range listeners(t) {
		t.Run(name, func(t *testing.T) {
			honest.LeavesNothing(t)
			s := honest.NewServer(t, cfg)
			standing := s.Dial(t)
			addr := net.TCPAddrFromAddrPort(s.Addr)
			honest.Meanwhile(t, func() error {
				var open []net.Conn
				defer func() {
					for _, c := range open {
						c.Close()
					}
				}()
				for i := range attack.Count(60) {
					b := noise(uint64(i))
					if known := openings(); i%3 != 0 {
						b = known[i%len(known)]
					}
					c, err := knock(addr, b)
					if err != nil && !errors.Is(err, io.EOF) && c == nil {
						return err
					}
					switch {
					case i%5 == 0 || len(open) > 100:
						c.(*net.TCPConn).SetLinger(0) // a reset
						c.Close()
					case i%5 == 1:
						c.(*net.TCPConn).CloseWrite()
						open = append(open, c)
					default:
						open = append(open, c)
					}
				}
				return nil
			}, func() { s.Echo(t, standing, 10000); s.Round(t, 1000) })
		})
	}
}

// More silent peers than a listener's maximum connect. Each honest peer is served at
// once, because the listener closes the oldest silent connection.
func TestAttackSilentPeersOnStreamListeners(t *testing.T) {
	const held = 256 // maximum of both layers; see maxSilent and maxArriving
	for name, cfg := range listeners(t) {
		t.Run(name, func(t *testing.T) {
			honest.LeavesNothing(t)
			s := honest.NewServer(t, cfg)
			standing := s.Dial(t)
			before := honest.Refusals(s.Dev)
			refused := "MPA_SILENT"
			if cfg.Device.TLS != nil {
				refused = "TLS_HANDSHAKE"
			}
			n := held + attack.Count(50)
			var open []net.Conn
			t.Cleanup(func() {
				for _, c := range open {
					c.Close()
				}
			})
			honest.Meanwhile(t, func() error {
				for range n {
					c, err := knock(net.TCPAddrFromAddrPort(s.Addr), nil)
					if err != nil {
						return err
					}
					open = append(open, c)
				}
				return nil
			}, func() { s.Echo(t, standing, 10000); s.Round(t, 1000) })
			honest.Counted(t, s.Dev, before, refused, uint64(n-held))
		})
	}
}

// An accepted peer that sends an invalid frame or stops within a frame ends its own
// connection and no other.
func TestAttackInvalidFrames(t *testing.T) {
	cfg := listeners(t)["plain"]
	honest.LeavesNothing(t)
	s := honest.NewServer(t, cfg)
	standing := s.Dial(t)
	addr := net.TCPAddrFromAddrPort(s.Addr)
	frame := func(seg iwarp.Segment, payload []byte) []byte {
		seg.Last = true
		seg.Length = uint16(seg.HeaderLen() - iwarp.LengthLen + len(payload))
		b := make([]byte, iwarp.FPDULen(int(seg.Length)))
		copy(b[seg.Put(b):], payload)
		end := len(b) - iwarp.CRCLen
		iwarp.PutCRC(b[end:], iwarp.UpdateCRC(0, b[:end]))
		return b
	}
	good := frame(iwarp.Segment{Opcode: iwarp.Send, MSN: 1}, make([]byte, 200))
	wrongCRC := append([]byte{}, good...)
	wrongCRC[len(wrongCRC)-1] ^= 1
	bodies := [][]byte{
		good[:1], good[:20], good[:len(good)-1], wrongCRC, noise(1), noise(2),
		frame(iwarp.Segment{Tagged: true, Opcode: iwarp.Write, STag: 0x12345678}, make([]byte, 64)),
		frame(iwarp.Segment{Opcode: iwarp.Send, MSN: 9}, make([]byte, 64)),
		frame(iwarp.Segment{Opcode: iwarp.Send, Queue: 2, MSN: 1}, make([]byte, 64)),
		frame(iwarp.Segment{Opcode: 15, MSN: 1}, make([]byte, 64)),
		frame(iwarp.Segment{Opcode: iwarp.ReadRequest, Queue: 1, MSN: 1}, make([]byte, iwarp.ReadLen)),
		frame(iwarp.Segment{Tagged: true, Opcode: iwarp.ReadResponse, STag: 1}, make([]byte, 16)),
		{0xff, 0xff}, // announces an FPDU of 64 KiB that does not follow
	}
	honest.Meanwhile(t, func() error {
		for i := range attack.Count(2 * len(bodies)) {
			if err := cutAfter(addr, admitted(), bodies[i%len(bodies)], i%2 == 0); err != nil {
				return err
			}
		}
		return nil
	}, func() { s.Echo(t, standing, 10000); s.Round(t, 1000) })
}

// admitted returns a request that rdmanet's listener accepts, with an rsocket's private
// data after the addresses.
func admitted() []byte {
	b := request()
	private := make([]byte, 40)
	private[0], private[3], private[23] = 1, 64, 32
	b = append(b, private...)
	var f iwarp.Frame
	f.Parse(b)
	f.Private = uint16(len(b) - iwarp.FrameLen)
	f.Put(b)
	return b
}

// cutAfter connects, waits for the reply, sends a body and ends the connection normally
// or by a reset.
func cutAfter(addr net.Addr, ask, body []byte, reset bool) error {
	c, err := knock(addr, ask)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(c, make([]byte, iwarp.FrameLen)); err != nil {
		return err
	}
	_, err = c.Write(body)
	if reset {
		c.(*net.TCPConn).SetLinger(0)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}
