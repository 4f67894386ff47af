package verbs_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/registry"
	wire "softrdma/internal/wire/iwarp"
	"softrdma/verbs"
)

// An oldPeer is a responder that only knows MPA revision 1: it closes connections of any
// other, as in RFC 5044 7.1.1. It reports the result of each connection.
func oldPeer(l net.Listener, told chan<- error) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		told <- serveOld(c)
	}
}

func serveOld(c net.Conn) error {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	head := make([]byte, wire.FrameLen)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	var f wire.Frame
	if f.Parse(head); f.Revision != wire.Revision1 {
		return fmt.Errorf("revision %d", f.Revision)
	}
	private := make([]byte, f.Private)
	if _, err := io.ReadFull(c, private); err != nil {
		return err
	}
	r := wire.Frame{Reply: true, Revision: 1, Flags: wire.FlagCRC, Private: f.Private}
	r.Put(head)
	if _, err := c.Write(append(head, private...)); err != nil {
		return err
	}
	// The initiator's first FPDU, then the end of the stream.
	b, err := io.ReadAll(c)
	if n := wire.FPDULen(wire.TaggedLen - wire.LengthLen); err == nil && (len(b) < n || len(b)%n != 0) {
		err = fmt.Errorf("received % x, expected WRITEs of no bytes", b)
	}
	return err
}

func TestIWARPReachesPeersOfRevision1(t *testing.T) {
	l, err := net.Listen("tcp", "127.13.1.31:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := make(chan error, 4)
	go oldPeer(l, told)
	dev, err := verbs.Open("iwarp:127.13.1.30", verbs.Config{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	e := newStreamEnd(t, dev, iwarpRights)
	p := testParams
	p.ClientServer, p.Private = true, []byte("as it was")
	s, err := registry.Adapter(dev).Dial(&adapter.DialConfig{Dst: netip.MustParseAddrPort(l.Addr().String()), QPN: e.qp.Number(), Params: p}, e.handle)
	if err != nil {
		t.Fatal(err)
	}
	v := e.await(iwarp.Established)
	if v.Agreement.Revision != 1 || string(v.Private) != "as it was" {
		t.Errorf("agreed on %+v with %q", v.Agreement, v.Private)
	}
	if err := <-told; err == nil || err.Error() != "revision 2" {
		t.Errorf("the first request: %v", err)
	}
	// The end comes when the first FPDU has been sent.
	if err := s.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Errorf("the second request: %v", err)
	}
	e.await(iwarp.Closed)
}
