package fabric

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// A fabric with --metrics shows the state and the traffic of each port that has a cable.
func TestFabricServesMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics")
	up(t, "--topology", "star:2", "--name", "m", "--metrics", path)
	until(t, "2 adapters", "fabric", "status", "--name", "m")
	expect(t, metrics(t, path),
		`softrdma_fabric_port_active{fabric="m",node="node-0",port="1"} 1`,
		`softrdma_fabric_port_active{fabric="m",node="switch-0",port="2"} 1`,
		`softrdma_fabric_port_link_downed_total{fabric="m",node="node-1",port="1"} 0`,
		`softrdma_fabric_port_transmitted_bytes_total{fabric="m",node="switch-0",port="1"} `,
	)
}

// One of Ethernet also shows its priorities.
func TestEthernetFabricServesMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics")
	up(t, "--ethernet", "--topology", "star:2", "--name", "m", "--metrics", path)
	clitest.Run(t, "fabric", "load", "node-0", "node-1", "--name", "m", "--sl", "3", "--packets", "10")
	until(t, "10       10", "fabric", "load", "--name", "m")
	expect(t, metrics(t, path),
		`softrdma_fabric_port_active{fabric="m",node="node-0",port="1"} 1`,
		`softrdma_fabric_port_transmitted_packets_total{fabric="m",node="node-0",port="1"} 10`,
		`softrdma_fabric_port_priority_transmitted_bytes_total{fabric="m",node="switch-0",port="2",priority="3"} `,
		`softrdma_fabric_port_priority_queue_bytes{fabric="m",node="switch-0",port="2",priority="3"} 0`,
	)
}

// metrics reads the metrics at a socket.
func metrics(t *testing.T, path string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	a, err := c.Get("http://fabric/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
