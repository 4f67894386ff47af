package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"softrdma/interop/peers/exerciser"
	"softrdma/verbs"
)

// openPeer opens a peer with its own device on a loopback address. Its packets go through sockets,
// as they do with rxe. In memory a message that does not fit would be refused as a whole; on a
// network only its excess packets are lost.
func openPeer(t *testing.T, role, address string) (*peer, *bytes.Buffer) {
	t.Helper()
	device, err := verbs.Open(address, verbs.Config{NoLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	out := &bytes.Buffer{}
	p, err := newPeer(options{role: role, mtu: 1024}, device, out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return p, out
}

// TestSoftrdmaWithItselfMatchesRxe plays every scenario with softrdma at both ends.
func TestSoftrdmaWithItselfMatchesRxe(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs two local addresses, and only Linux has all of 127.0.0.0/8")
	}
	// Addresses that no other package's tests use: those run at the same time.
	client, clientSaid := openPeer(t, exerciser.Client, "127.16.77.1")
	server, serverSaid := openPeer(t, exerciser.Server, "127.16.77.2")
	l, err := net.Listen("tcp", "127.16.77.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = server.answer(c)
		}
		served <- err
	}()
	client.connect, client.port = "127.16.77.2", l.Addr().(*net.TCPAddr).Port
	began := time.Now()
	if err := errors.Join(client.call(client.names), <-served); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d scenarios took %v", len(client.names), time.Since(began).Round(time.Millisecond))
	want, err := exerciser.Expected(exerciser.Client, exerciser.Server)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []*bytes.Buffer{clientSaid, serverSaid} {
		n := 0
		for line := range strings.Lines(said.String()) {
			var got exerciser.Result
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(fmt.Errorf("%w: %s", err, line))
			}
			n++
			want, got := exerciser.Comparable(want[got.Scenario][got.Role], got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: -expected +found\n%s", got.Scenario, got.Role, diff)
			}
		}
		if n != len(client.names) {
			t.Errorf("%d results of %d scenarios", n, len(client.names))
		}
	}
}
