package live

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"testing"

	"softrdma/internal/fabric/attach"
)

// outboxPair returns an outbox that does not run yet, and the program's end of its connection.
func outboxPair(t *testing.T) (*outbox, *attach.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	o := newOutbox(attach.NewConn(server))
	t.Cleanup(o.close)
	return o, attach.NewConn(client)
}

// A program that does not read for a while gets what fits into its socket and into the outbox.
func TestOutboxKeepsTheOrder(t *testing.T) {
	o, c := outboxPair(t)
	o.open()
	sent := 0
	for o.mad(binary.BigEndian.AppendUint32([]byte{byte(attach.Arrived)}, uint32(sent))) {
		sent++
	}
	if o.queue.Load() != outboxLen || sent == outboxLen {
		t.Fatalf("%d messages accepted, %d of them queued", sent, o.queue.Load())
	}
	go o.run()
	accepted := sent
	for i := 0; i < accepted; i++ {
		b, _, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if n := binary.BigEndian.Uint32(b[1:]); n != uint32(i) {
			t.Fatalf("message %d arrived after %d", n, i-1)
		}
		if accepted < 3*sent && o.mad(binary.BigEndian.AppendUint32([]byte{byte(attach.Arrived)}, uint32(accepted))) {
			accepted++
		}
	}
}

// A management packet may come before the program has its Welcome, which is then still its first message.
func TestOutboxSendsNothingBeforeTheWelcome(t *testing.T) {
	o, c := outboxPair(t)
	if !o.mad([]byte{byte(attach.Arrived)}) {
		t.Fatal("no room")
	}
	if err := o.conn.Send([]byte{byte(attach.Welcome)}); err != nil {
		t.Fatal(err)
	}
	o.open()
	go o.run()
	for _, want := range []attach.Kind{attach.Welcome, attach.Arrived} {
		if b, _, err := c.Receive(); err != nil || attach.Kind(b[0]) != want {
			t.Errorf("expected a message of kind %d, found %x, %v", want, b, err)
		}
	}
}

// The signal of an Info can be left over when an earlier turn has sent that Info with another one.
func TestOutboxSendsNoInfoTwice(t *testing.T) {
	o, c := outboxPair(t)
	o.open()
	go o.run()
	o.news <- struct{}{}
	o.info(&attach.InfoBody{Info: attach.Info{Node: "n"}})
	b, _, err := c.Receive()
	var m attach.InfoBody
	if err != nil || attach.Kind(b[0]) != attach.Changed || attach.Protocol.Parse(b, &m) != nil || m.Info.Node != "n" {
		t.Errorf("%q, %v", b, err)
	}
	if !o.mad([]byte{byte(attach.Arrived)}) {
		t.Fatal("no room")
	}
	if b, _, err = c.Receive(); err != nil || attach.Kind(b[0]) != attach.Arrived {
		t.Errorf("%q, %v", b, err)
	}
}
