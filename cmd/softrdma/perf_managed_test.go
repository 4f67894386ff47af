package main

import (
	"path/filepath"
	"strings"
	"testing"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

func TestPerfManaged(t *testing.T) {
	for _, args := range []string{"write bw -q 3 -n 100", "send bw -b -q 2 -s 3000 -n 200 -e", "read lat -n 50", "atomic bw -n 300"} {
		t.Run(args, func(t *testing.T) {
			server, client := perfPair(t, append(strings.Fields(args), "-R")...)
			if out := client.succeeds(); !strings.Contains(out, "#bytes") {
				t.Errorf("expected a result, found\n%s", out)
			}
			server.succeeds()
		})
	}
	start(t, "perf", "write", "bw", "-R", "-m", "1024", "localhost").fails(exitUsage, "-m")
}

// The packets of the connection manager are on the wire: that is what -R is for.
func TestPerfManagedConnectsThroughQueuePairOne(t *testing.T) {
	for managed, want := range map[string]bool{"-R": true, "-R=false": false} {
		file := filepath.Join(t.TempDir(), "x.pcapng")
		server, client := perfPair(t, "send", "lat", "-n", "5", managed, "--pcap", file)
		client.succeeds()
		server.succeeds()
		out := run(t, "capture", "--strict", file)
		if got := strings.Contains(out, "QP 0x000001 PSN"); got != want || !strings.Contains(out, "RC SEND") {
			t.Errorf("%s: queue pair 1 on the wire: expected %v, found %v in\n%s", managed, want, got, out)
		}
	}
}

// A stranger at the port of a measurement is refused, and does not disturb.
func TestPerfManagedStranger(t *testing.T) {
	dev, err := verbs.Open(loopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := newSide(dev, sideConfig{QPs: 1, Depth: 1, Recv: 1, Memory: 64, Managed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	service, err := s.offer()
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- s.answer(t.Context(), service) }()
	peer, err := verbs.Open(loopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	to := s.links.listen.LocalAddr()
	d := rdmacm.Dialer{Device: peer, RemoteUDPPort: dev.Addr().Port()}
	for _, private := range [][]byte{nil, service.private(1), (&perfService{Token: service.Token + 1}).private(0)} {
		d.Param.PrivateData = private
		if c, err := d.Dial(t.Context(), to.String()); err == nil || !strings.Contains(err.Error(), "rejected") {
			t.Errorf("private data %x: expected a rejection, found %v, %v", private, c, err)
		}
	}
	d.Param.PrivateData = service.private(0)
	c, err := d.Dial(t.Context(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-answered; err != nil || len(s.qps) != 1 {
		t.Errorf("expected one queue pair, found %d, %v", len(s.qps), err)
	}
}
