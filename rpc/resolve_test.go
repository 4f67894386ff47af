package rpc_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"softrdma/rpc"
)

// serveName answers queries for the IPv4 address of any name with addr, until the test ends. It
// returns how often it was asked.
func serveName(t *testing.T, addr netip.Addr) (asked *atomic.Int32) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	// DialUDP, unlike a Dialer, does not read DefaultResolver: the query for the IPv6 address may
	// outlive its caller and the test.
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr))
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
	})
	asked = new(atomic.Int32)
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				asked.Add(1)
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: addr.As4()}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(out, from)
			}
		}
	}()
	return asked
}

// The connections of a session go to one address, even if its name has several or gets others.
// Those that replace broken ones go to the address that the name has then.
func TestNameIsResolvedOnceForASession(t *testing.T) {
	w := serveRails(t, "")
	asked := serveName(t, w.servers[0].Addr().Addr())
	_, port, _ := strings.Cut(w.addresses[0], ":")
	c, err := rpc.Dial(within(t), "server.softrdma.test.:"+port, rpc.ClientConfig{Device: w.clients[0], Connections: 3})
	if err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the name was resolved %d times, expected once", n)
	}
	rpc.CutClient(c, 1)
	for end := time.Now().Add(20 * time.Second); asked.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the name was not resolved again after a connection was cut")
		}
	}
	w.calls(c, 0, func() {})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
