//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The script checks all that it does itself.
func TestProgramsShareMemory(t *testing.T) {
	lib := library(t)
	t.Setenv("SOFTRDMA_SHARE_MEMORY", "1")
	for i, args := range [][]string{{"data"}, {"data", "init"}, {"atomics"}, {"regions"}, {"fork"}, {"fork", "init"}, {"unshared"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := newServer(t, "127.14.3."+string(rune('6'+i%3)))
			if out := runPython(t, s, lib, append([]string{"testdata/share.py"}, args...)...); !strings.Contains(out, "right") {
				t.Error(out)
			}
			private := maps.Collect(s.cfg.Devices[0].Counters())["MEMORY_PRIVATE"] != 0
			if private != (args[0] == "unshared") && args[0] != "regions" { // some overlap in part
				t.Errorf("reported memory that is not shared: %v", private)
			}
		})
	}
}

// sharedBytes is how much of a program's memory is shared with the server.
func sharedBytes(pid int) (n uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(text)) {
		var from, to uint64
		if k, _ := fmt.Sscanf(line, "%x-%x", &from, &to); k == 2 && strings.Contains(line, "softrdma-share") {
			n += to - from
		}
	}
	return n
}

// Pairs of programs on one device, of which one shares memory, or both.
func TestProgramsThatShareAndThatDoNotRunTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	const addr = "127.14.3.9"
	lib, s := library(t), newServer(t, addr)
	var pairs [][]string
	for _, op := range []string{"write", "read", "send"} {
		for _, size := range []string{"8", "300001"} {
			pairs = append(pairs, []string{"ib_" + op + "_bw", "-F", "-n", "200", "-s", size}, []string{"ib_" + op + "_lat", "-F", "-n", "200", "-s", size})
		}
	}
	pairs = append(pairs,
		[]string{"ib_write_bw", "-F", "-n", "200", "-s", "300000", "-b", "-q", "4"},
		[]string{"ib_atomic_bw", "-F", "-n", "200"}, []string{"ib_atomic_lat", "-F", "-n", "200", "-A", "CMP_AND_SWAP"},
		[]string{"ibv_rc_pingpong", "-g", "0", "-c", "-s", "200000"}, // which looks whether data is right
	)
	before := openDescriptors(t)
	for _, args := range pairs {
		for mode := 1; mode <= 3; mode++ {
			t.Run(fmt.Sprintf("%s, %d", strings.Join(args, " "), mode), func(t *testing.T) {
				ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
				defer cancel()
				port := freePort(t)
				args := append(args, "-p", port)
				server, serverOut := command(ctx, t, s, lib, args...)
				client, out := command(ctx, t, s, lib, append(args, addr)...)
				if mode&1 != 0 {
					server.Env = append(server.Env, ShareMemory)
				}
				if mode&2 != 0 {
					client.Env = append(client.Env, ShareMemory)
				}
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "a program that listens", func() bool { return listens(port) })
				if err := client.Run(); err != nil {
					cancel()
					_ = server.Wait()
					t.Fatalf("%v\n%s\nserver:\n%s", err, out, serverOut)
				}
				if err := server.Wait(); err != nil {
					t.Errorf("server: %v\n%s", err, serverOut)
				}
				eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
			})
		}
	}
	if n := maps.Collect(s.cfg.Devices[0].Counters())["MEMORY_PRIVATE"]; n != 0 {
		t.Errorf("%d regions were not shared", n)
	}
	eventually(t, "all descriptors closed", func() bool { return openDescriptors(t) <= before+1 }) // the socket of a flow may be kept
}

// What is shared goes with a program that is killed, and its peer sees no more
// than of any other.
func TestProgramThatSharesIsKilled(t *testing.T) {
	const addr = "127.14.3.10"
	lib, s := library(t), newServer(t, addr)
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
	defer cancel()
	before := openDescriptors(t)
	for range 3 {
		port := freePort(t)
		args := []string{"ib_write_bw", "-F", "-s", "1048576", "--run_infinitely", "-D", "60", "-p", port}
		server, _ := command(ctx, t, s, lib, args...)
		client, _ := command(ctx, t, s, lib, append(args, addr)...)
		server.Env, client.Env = append(server.Env, ShareMemory), append(client.Env, ShareMemory)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a program that listens", func() bool { return listens(port) })
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both share memory", func() bool {
			return sharedBytes(server.Process.Pid) >= 1<<20 && sharedBytes(client.Process.Pid) >= 1<<20
		})
		for _, p := range []*os.Process{server.Process, client.Process} {
			if err := p.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = server.Wait(), client.Wait()
		eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
	}
	eventually(t, "all descriptors closed", func() bool { return openDescriptors(t) <= before+1 }) // the socket of a flow may be kept
}
