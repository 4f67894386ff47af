package live

import (
	"net"
	"path/filepath"
	"testing"

	"softrdma/internal/fabric/attach"
)

// The signal of an Info can be left over when an earlier turn has sent that Info with another one.
func TestOutboxSendsNoInfoTwice(t *testing.T) {
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
	defer client.Close()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	o := newOutbox(attach.NewConn(server))
	go o.run()
	defer o.close()
	o.news <- struct{}{}
	o.info(&attach.InfoBody{Info: attach.Info{Node: "n"}})
	c := attach.NewConn(client)
	b, _, err := c.Receive()
	var m attach.InfoBody
	if err != nil || attach.Kind(b[0]) != attach.Changed || attach.ParseJSON(b, &m) != nil || m.Info.Node != "n" {
		t.Errorf("%q, %v", b, err)
	}
	if !o.mad([]byte{byte(attach.Arrived)}) {
		t.Fatal("no room")
	}
	if b, _, err = c.Receive(); err != nil || attach.Kind(b[0]) != attach.Arrived {
		t.Errorf("%q, %v", b, err)
	}
}
