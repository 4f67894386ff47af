//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// Programs exchange management datagrams through libibumad, each with a device of its own
// and both with one device.
func TestProgramsExchangeManagementDatagrams(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/umad.h"); err != nil {
		testenv.Lacks(t, "libibumad-dev")
	}
	lib, program := library(t), filepath.Join(t.TempDir(), "umad")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", program, "testdata/umad.c", "-libumad").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const peer = "127.14.3.21"
	a, b := newServer(t, peer), newServer(t, "127.14.3.22")
	gid := netip.AddrFrom16(netip.MustParseAddr(peer).As16()).String()
	for name, env := range engines(t) {
		for where, servers := range map[string][2]*Server{"two devices": {a, b}, "one device": {a, a}} {
			t.Run(name+" "+where, func(t *testing.T) {
				ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
				defer cancel()
				server, serverOut := command(ctx, t, servers[0], lib, program, "server", "100")
				server.Env = append(server.Env, env...)
				server.Stdout = nil
				ready, err := server.StdoutPipe()
				if err == nil {
					err = server.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				line := make([]byte, 256)
				n, _ := ready.Read(line)
				if !strings.HasPrefix(string(line[:n]), "ready") {
					t.Fatalf("server: %s%s", line[:n], serverOut)
				}
				client, out := command(ctx, t, servers[1], lib, program, "client", gid, "100")
				client.Env = append(client.Env, env...)
				if err := client.Run(); err != nil || !strings.Contains(out.String(), "done") {
					t.Fatalf("client: %v\n%s", err, out)
				}
				if err := server.Wait(); err != nil {
					t.Errorf("server: %v\n%s", err, serverOut)
				}
				eventually(t, "nothing left", func() bool { return a.Count() == Counts{} && b.Count() == Counts{} })
			})
		}
	}
}
