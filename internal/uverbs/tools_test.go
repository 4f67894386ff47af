//go:build linux

package uverbs

import (
	stdcontext "context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/registry"
	"softrdma/internal/testenv"
	"softrdma/internal/trace"
	"softrdma/verbs"
)

// rdma returns what iproute2's command prints.
func rdma(ctx stdcontext.Context, t *testing.T, s *Server, lib string, args ...string) string {
	t.Helper()
	c, out := command(ctx, t, s, lib, append([]string{"rdma"}, args...)...)
	if err := c.Run(); err != nil {
		t.Fatalf("rdma %v: %v\n%s", args, err, out)
	}
	return out.String()
}

// iproute2's command finds the objects of a program of the server, with its process.
func TestRDMAShowsObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the preloaded library")
	}
	lib, s := library(t), newServer(t, "127.14.3.46")
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 4*timeLimit)
	defer cancel()
	pid := startHelper(t, s, nil).cmd.Process.Pid
	for kind, want := range map[string][]string{
		"qp": {"lqpn", "state", "type"}, "mr": {"mrlen", "rkey"}, "cq": {"cqe", "users"}, "pd": {"users"}, "ctx": {"ctxn"},
	} {
		var list []map[string]any
		text := rdma(ctx, t, s, lib, "resource", "show", kind, "-dd", "-j")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, text)
			continue
		}
		found := false
		for _, x := range list {
			if x["pid"] != float64(pid) {
				continue
			}
			found = true
			for _, name := range want {
				if _, ok := x[name]; !ok {
					t.Errorf("%s: no %s in %v", kind, name, x)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing of process %d in %s", kind, pid, text)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"dev", "rxe0: node_type ca"}, {"link -d", "link rxe0/1 state ACTIVE"}, {"resource show", "rxe0: pd"},
		{"resource show srq", ""}, {"statistic show", "sent_pkts"}, {"statistic qp show", ""}, {"statistic mr", ""},
		{"system", "netns shared copy-on-fork on"},
	} {
		if out := rdma(ctx, t, s, lib, strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("rdma %s: %s", c.args, out)
		}
	}
}

// node_exporter reads the tree as it reads /sys, without the preloaded library.
func TestNodeExporterReadsTheTree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts node_exporter")
	}
	s := newServer(t, "127.14.3.47")
	d, err := verbs.Open("shared:"+s.Socket(), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	registry.Of(d).Adapter.Trace.Mirror.Traffic = trace.Traffic{Sent: 4096, Received: 1 << 40, SentPackets: 7, ReceivedPackets: 9}
	ask := testenv.NodeExporter(t, filepath.Join(s.Tree(), "sys"))
	for _, want := range []string{
		`node_infiniband_port_data_transmitted_bytes_total{device="rxe0",port="1"} 4096`,
		`node_infiniband_port_data_received_bytes_total{device="rxe0",port="1"} 1.099511627776e+12`,
		`node_infiniband_port_packets_transmitted_total{device="rxe0",port="1"} 7`,
		`node_infiniband_port_packets_received_total{device="rxe0",port="1"} 9`,
		`node_infiniband_state_id{device="rxe0",port="1"} 4`,
		`node_infiniband_physical_state_id{device="rxe0",port="1"} 5`,
	} {
		eventually(t, "node_exporter shows "+want, func() bool { return strings.Contains(ask(), want+"\n") })
	}
}
