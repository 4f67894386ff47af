package away

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/link/tcp"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
	"softrdma/internal/unixmsg"
)

const (
	shared = "127.91.0.1" // the server's address, of which the program has a lane
	other  = "127.91.0.2"
)

// end is a device with what its streams have reported.
type end struct {
	dev    *adapter.Device
	events chan adapter.StreamEvent
}

func openLink(t testing.TB, addr string, secret *tls.Config) link.Streams {
	t.Helper()
	open := tcp.Open
	if secret != nil {
		open = func(a netip.Addr, c tcp.Config) (link.Streams, error) { return tcp.OpenTLS(a, c, secret) }
	}
	l, err := open(netip.MustParseAddr(addr), tcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t *testing.T, l link.Streams, share steering.Share) *end {
	t.Helper()
	e := &end{adapter.Open(adapter.Config{Streams: l, Share: share}), make(chan adapter.StreamEvent, 16)}
	t.Cleanup(func() { _ = e.dev.Close() })
	return e
}

func (e *end) handle(x *adapter.StreamEvent) { e.events <- *x }

// pair makes a queue pair that can be connected.
func (e *end) pair(t *testing.T) uint32 {
	t.Helper()
	pd, err := e.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := e.dev.CreateCQ(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := pd.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1})
	if err == nil {
		err = q.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	return q.QPN
}

// next waits for the next event.
func (e *end) next(t *testing.T) adapter.StreamEvent {
	t.Helper()
	select {
	case x := <-e.events:
		return x
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// wants waits for the next event, of a kind.
func (e *end) wants(t *testing.T, k iwarp.EventKind) adapter.StreamEvent {
	t.Helper()
	x := e.next(t)
	if x.Kind != k {
		t.Fatalf("event %d, expected %d: %v %v", x.Kind, k, x.Detail, x.Err)
	}
	return x
}

// connection returns both ends of a connection between a server and a program.
func connection(t *testing.T) (server, program *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		c, err := unixmsg.ConnOf(fd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	return conns[0], conns[1]
}

// share opens the server's and the program's device on one address, and connects them.
func share(t *testing.T, secret *tls.Config) (server, program *end, far *net.UnixConn) {
	t.Helper()
	near, far := connection(t)
	p, err := NewProgram(far), error(nil)
	server = open(t, openLink(t, shared, secret), steering.Share{Lanes: 1, Of: 4})
	var l link.Streams
	if secret == nil {
		l = openLink(t, shared, nil)
	} else if l, err = tcp.OpenRelayed(netip.MustParseAddr(shared), p.Connect); err != nil {
		t.Fatal(err)
	}
	program = open(t, l, steering.Share{First: 1, Lanes: 1, Of: 4})
	c := NewClient(near, server.dev, func() (func(), error) { return func() {}, nil })
	go c.Run()
	go p.Serve(program.dev)
	err = adapter.ShareStreams(server.dev, func(lane int) adapter.StreamAway {
		if lane == 1 {
			return c
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, program, far
}

// withTLSToo runs a test with and without TLS, whose connections the server keeps.
func withTLSToo(t *testing.T, test func(t *testing.T, secret *tls.Config)) {
	t.Run("plain", func(t *testing.T) { test(t, nil) })
	t.Run("TLS", func(t *testing.T) { test(t, certified(t)) })
}

// certified returns a configuration of ends that have one certificate.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, InsecureSkipVerify: true,
	}
}

func dialTo(at netip.AddrPort, qpn uint32) *adapter.DialConfig {
	return &adapter.DialConfig{Dst: at, QPN: qpn, Params: iwarp.Params{Private: []byte("hello")}}
}

// accepted connects a peer to a queue pair of the program.
func accepted(t *testing.T, server, program, peer *end) (mine, theirs *adapter.Stream) {
	t.Helper()
	l, err := server.dev.ListenStream(0, 4, server.handle)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = peer.dev.Dial(dialTo(l.Addr(), peer.pair(t)), peer.handle)
	if err != nil {
		t.Fatal(err)
	}
	e := server.wants(t, iwarp.Requested)
	if err := e.On.Accept(program.pair(t), &iwarp.Params{Private: []byte("welcome")}); err != nil {
		t.Fatal(err)
	}
	if e := peer.wants(t, iwarp.Established); string(e.Private) != "welcome" {
		t.Errorf("private data %q", e.Private)
	}
	server.wants(t, iwarp.Established)
	return e.On, theirs
}

func TestProgramContinuesAnAcceptedStream(t *testing.T) {
	withTLSToo(t, testProgramContinuesAnAcceptedStream)
}

func testProgramContinuesAnAcceptedStream(t *testing.T, secret *tls.Config) {
	server, program, _ := share(t, secret)
	peer := open(t, openLink(t, other, secret), steering.Share{})
	mine, _ := accepted(t, server, program, peer)
	if n, _ := server.dev.StreamCount(); n != 0 {
		t.Errorf("the server has %d streams, expected none", n)
	}
	if at := mine.Local(); at.Addr().String() != shared || at.Port() == 0 {
		t.Errorf("local address %v", at)
	}
	if err := mine.Disconnect(); err != nil {
		t.Fatal(err)
	}
	peer.wants(t, iwarp.Closed)
	server.wants(t, iwarp.Closed)
	mine.Release()
}

func TestProgramDialsForTheServer(t *testing.T) { withTLSToo(t, testProgramDialsForTheServer) }

func testProgramDialsForTheServer(t *testing.T, secret *tls.Config) {
	server, program, _ := share(t, secret)
	peer := open(t, openLink(t, other, secret), steering.Share{})
	l, err := peer.dev.ListenStream(0, 4, peer.handle)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.dev.Dial(dialTo(l.Addr(), program.pair(t)), server.handle)
	if err != nil {
		t.Fatal(err)
	}
	e := peer.wants(t, iwarp.Requested)
	if string(e.Private) != "hello" || e.On.Remote().Addr().String() != shared {
		t.Errorf("private data %q from %v", e.Private, e.On.Remote())
	}
	if err := e.On.Accept(peer.pair(t), &iwarp.Params{}); err != nil {
		t.Fatal(err)
	}
	server.wants(t, iwarp.Established)
	if s.Local() != e.On.Remote() {
		t.Errorf("local address %v, expected %v", s.Local(), e.On.Remote())
	}
	e.On.Release()
	server.wants(t, iwarp.Closed)
}

func TestDialOfNoQueuePairIsRefused(t *testing.T) { withTLSToo(t, testDialOfNoQueuePairIsRefused) }

func testDialOfNoQueuePairIsRefused(t *testing.T, secret *tls.Config) {
	server, _, _ := share(t, secret)
	if _, err := server.dev.Dial(dialTo(netip.MustParseAddrPort(other+":9"), 0x1001), server.handle); err != nil {
		t.Fatal(err)
	}
	if e := server.wants(t, iwarp.Refused); e.Err == nil {
		t.Error("no text")
	}
	if _, err := server.dev.Dial(dialTo(netip.MustParseAddrPort(other+":9"), 0x1002), server.handle); err == nil {
		t.Error("dialled for a lane that nobody has")
	}
}

func TestDialOfAClosedPortIsRefused(t *testing.T) { withTLSToo(t, testDialOfAClosedPortIsRefused) }

func testDialOfAClosedPortIsRefused(t *testing.T, secret *tls.Config) {
	server, program, _ := share(t, secret)
	if _, err := server.dev.Dial(dialTo(netip.MustParseAddrPort(other+":9"), program.pair(t)), server.handle); err != nil {
		t.Fatal(err)
	}
	if e := server.wants(t, iwarp.Refused); e.Detail.Reason != reason.ConnectRefused {
		t.Errorf("found %v", e.Detail)
	}
}

// When a program has ended, its streams have.
func TestStreamsOfAnEndedProgramAreLost(t *testing.T) {
	withTLSToo(t, testStreamsOfAnEndedProgramAreLost)
}

func testStreamsOfAnEndedProgramAreLost(t *testing.T, secret *tls.Config) {
	server, program, far := share(t, secret)
	peer := open(t, openLink(t, other, secret), steering.Share{})
	accepted(t, server, program, peer)
	_ = far.Close()
	if e := server.wants(t, iwarp.Closed); e.Detail.Reason != reason.StreamLost {
		t.Errorf("found %v", e.Detail)
	}
	if _, err := server.dev.Dial(dialTo(netip.MustParseAddrPort(other+":9"), program.pair(t)), server.handle); err != nil {
		t.Fatal(err)
	}
	if e := server.wants(t, iwarp.Refused); e.Detail.Reason != reason.StreamLost {
		t.Errorf("found %v", e.Detail)
	}
}

// A program that reports nonsense loses its streams, and nothing else happens.
func FuzzReports(f *testing.F) {
	f.Add([]byte("\x05" + `{"ID":1,"Kind":2}`))
	f.Add([]byte("\x05" + `{"ID":1,"Kind":1,"Local":"1.2.3.4:5"}`))
	f.Add([]byte("\x05" + `{"ID":18446744073709551615,"Kind":255,"Detail":{"Reason":65535}}`))
	f.Add([]byte("\x05["))
	f.Add([]byte("\x06" + `{"Dst":"127.0.0.1:1"}`))
	f.Add([]byte("\x07" + `{"PID":-1}`))
	dev := adapter.Open(adapter.Config{Streams: openLink(f, shared, nil)})
	f.Cleanup(func() { _ = dev.Close() })
	f.Fuzz(func(t *testing.T, message []byte) {
		near, far := connection(t)
		c := NewClient(near, dev, func() (func(), error) { return func() {}, nil })
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run()
		}()
		if len(message) > 0 && len(message) <= protocol.MaxMessage {
			_, _ = far.Write(message)
		}
		_ = far.Close()
		<-done
	})
}

func TestStreamForAClosedDeviceEnds(t *testing.T) { withTLSToo(t, testStreamForAClosedDeviceEnds) }

func testStreamForAClosedDeviceEnds(t *testing.T, secret *tls.Config) {
	server, program, _ := share(t, secret)
	peer := open(t, openLink(t, other, secret), steering.Share{})
	l, err := server.dev.ListenStream(0, 4, server.handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := peer.dev.Dial(dialTo(l.Addr(), peer.pair(t)), peer.handle); err != nil {
		t.Fatal(err)
	}
	e, qpn := server.wants(t, iwarp.Requested), program.pair(t)
	if err := program.dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.On.Accept(qpn, &iwarp.Params{}); err != nil {
		t.Fatal(err)
	}
	// The peer asks with an earlier revision of MPA, because the first stream has ended.
	found := map[iwarp.EventKind]bool{server.next(t).Kind: true, server.next(t).Kind: true}
	if !found[iwarp.Refused] || !found[iwarp.Requested] {
		t.Errorf("events %v, expected the end and another request", found)
	}
}
