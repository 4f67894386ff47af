package measure

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A program without the token is rejected, and the client is still accepted.
func TestAcceptRejectsRequestsWithoutToken(t *testing.T) {
	dev, err := verbs.Open(clitest.LoopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := NewSide(dev, SideConfig{QPs: 1, Depth: 1, Recv: 1, Memory: 64, Managed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	service, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- s.Accept(t.Context(), service) }()
	peer, err := verbs.Open(clitest.LoopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	to := s.conns.listen.LocalAddr()
	d := rdmacm.Dialer{Device: peer, RemoteUDPPort: dev.Addr().Port()}
	for _, private := range [][]byte{nil, service.privateData(1), (&Service{Token: service.Token + 1}).privateData(0)} {
		d.Param.PrivateData = private
		if c, err := d.Dial(t.Context(), to.String()); err == nil || !strings.Contains(err.Error(), "rejected") {
			t.Errorf("private data %x: expected a rejection, found %v, %v", private, c, err)
		}
	}
	d.Param.PrivateData = service.privateData(0)
	c, err := d.Dial(t.Context(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-answered; err != nil || len(s.QPs) != 1 {
		t.Errorf("expected one queue pair, found %d, %v", len(s.QPs), err)
	}
}
