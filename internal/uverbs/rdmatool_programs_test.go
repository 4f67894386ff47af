//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// iproute2's command finds the ids of a program, with its process.
func TestProgramRDMAShowsIDs(t *testing.T) {
	lib, s := library(t), newServer(t, "127.14.3.43")
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 4*timeLimit)
	defer cancel()
	server, _ := command(ctx, t, s, lib, "rping", "-s", "-a", "127.14.3.43", "-p", freePort(t))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	eventually(t, "rping listens", func() bool {
		return len(view{s: s}.Objects(0).IDs) > 0
	})
	ids := rdma(ctx, t, s, lib, "resource", "show", "cm_id")
	if !strings.Contains(ids, "state LISTEN") || !strings.Contains(ids, fmt.Sprintf("pid %d comm rping", server.Process.Pid)) {
		t.Errorf("ids: %s", ids)
	}
}

// Programs that have their devices in their own processes say what objects they have.
func TestProgramRDMAShowsObjectsOfProgramsWithOwnDevices(t *testing.T) {
	lib, s, engine := library(t), newServer(t, "127.14.3.45"), engines(t)["program"]
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 4*timeLimit)
	defer cancel()
	port, pids := freePort(t), make(map[float64]bool)
	for _, side := range []string{"-s", "-c"} {
		c, out := command(ctx, t, s, lib, "rping", side, "-a", "127.14.3.45", "-p", port, "-C", "100000000")
		c.Env = append(c.Env, engine...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			if t.Failed() {
				t.Logf("rping %s: %s", side, out)
			}
		}()
		pids[float64(c.Process.Pid)] = true
		if side == "-s" {
			eventually(t, "rping listens", func() bool { return len(view{s: s}.Objects(0).IDs) > 0 })
		}
	}
	list := func(kind string) (all []map[string]any) {
		t.Helper()
		c, out := command(ctx, t, s, lib, "rdma", "resource", "show", kind, "-dd", "-j")
		if err := c.Run(); err != nil {
			t.Fatalf("rdma: %v\n%s", err, out)
		}
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, out)
		}
		return all
	}
	var pairs []map[string]any
	eventually(t, "both queue pairs are connected", func() bool {
		pairs = list("qp")
		return len(pairs) == 2 && pairs[0]["state"] == "RTS" && pairs[1]["state"] == "RTS"
	})
	if pairs[0]["lqpn"] != pairs[1]["rqpn"] || pairs[1]["lqpn"] != pairs[0]["rqpn"] || pairs[0]["pdn"] == pairs[1]["pdn"] {
		t.Errorf("queue pairs: %v", pairs)
	}
	for _, kind := range []string{"qp", "mr", "cq", "pd", "ctx", "cm_id"} {
		found := make(map[float64]bool)
		for _, x := range list(kind) {
			pid, _ := x["pid"].(float64)
			if found[pid] = true; !pids[pid] || x["comm"] != "rping" {
				t.Errorf("%s: %v, expected rping with one of the processes %v", kind, x, pids)
			}
		}
		if len(found) != 2 {
			t.Errorf("%s: of %d processes, expected 2", kind, len(found))
		}
	}
}
