//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// A measurement is a pair of programs on one device, or of UCX's on a
// transport, and where its output has the figure.
type measurement struct {
	name   string
	ucx    string // UCX_TLS
	args   []string
	begins string // of the line with the figure
	field  int    // in it
	unit   string
}

// measurements are taken in this order, round by round. Latency is typical half
// a round trip of 8 bytes, bandwidth the average of MiBs.
func measurements() (list []measurement) {
	for _, op := range []string{"write", "send", "read"} {
		list = append(list, measurement{"ib_" + op + "_lat", "", []string{"ib_" + op + "_lat", "-F", "-s", "8", "-n", "5000"}, "8 ", 4, "us"})
	}
	for _, t := range []string{"ucp_put_lat", "tag_lat"} {
		list = append(list, measurement{"ucx tcp " + t, "tcp,self", []string{"ucx_perftest", "-t", t, "-s", "8", "-n", "5000"}, "Final:", 2, "us"})
	}
	for _, op := range []string{"write", "send", "read"} {
		list = append(list, measurement{"ib_" + op + "_bw", "", []string{"ib_" + op + "_bw", "-F", "-s", "1048576", "-n", "1000"}, "1048576 ", 3, "MiB/s"})
	}
	for _, tls := range []string{"tcp,self", "posix,cma,self"} {
		list = append(list, measurement{"ucx " + tls + " tag_bw", tls, []string{"ucx_perftest", "-t", "tag_bw", "-s", "1048576", "-n", "1000"}, "Final:", 6, "MiB/s"})
	}
	return list
}

// BenchmarkProgramsBesideUCX measures programs that share a device beside UCX's
// own on the same machine, in turn, and reports the median of the rounds:
//
//	go test -tags interop -run '^$' -bench BesideUCX -benchtime 5x ./internal/uverbs
func BenchmarkProgramsBesideUCX(b *testing.B) {
	const addr = "127.14.4.1"
	lib, s := library(b), newServer(b, addr)
	list := measurements()
	found := make([][]float64, len(list))
	for b.Loop() {
		for i := range list {
			found[i] = append(found[i], list[i].take(b, s, lib, addr))
		}
	}
	b.ReportMetric(0, "ns/op")
	fmt.Println() // of what is logged ten lines are printed
	for i, m := range list {
		slices.Sort(found[i])
		fmt.Printf("%-24s %9.1f %-6s (%.1f to %.1f)\n", m.name, found[i][len(found[i])/2], m.unit, found[i][0], found[i][len(found[i])-1])
	}
}

// take runs both programs once.
func (m *measurement) take(b *testing.B, s *Server, lib, addr string) float64 {
	b.Helper()
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 4*timeLimit)
	defer cancel()
	port := freePort(b)
	args := append(slices.Clone(m.args), "-p", port)
	server, serverOut := command(ctx, b, s, lib, args...)
	if m.ucx != "" {
		addr, server.Env = "127.0.0.1", append(os.Environ(), "UCX_TLS="+m.ucx)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	eventually(b, m.name+" listens", func() bool { return listens(port) })
	client, out := command(ctx, b, s, lib, append(args, addr)...)
	client.Env = server.Env
	if err := client.Run(); err != nil {
		cancel()
		_ = server.Wait()
		b.Fatalf("%s: %v\n%s\nserver:\n%s", m.name, err, out, serverOut)
	}
	if err := server.Wait(); err != nil {
		b.Fatalf("%s: server: %v\n%s", m.name, err, serverOut)
	}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); strings.HasPrefix(strings.TrimSpace(line), m.begins) && len(f) > m.field {
			if v, err := strconv.ParseFloat(f[m.field], 64); err == nil {
				return v
			}
		}
	}
	b.Fatalf("%s: no figure in\n%s", m.name, out)
	return 0
}

// freePort is a TCP port that is not in use.
func freePort(b testing.TB) string {
	b.Helper()
	return strconv.Itoa(testenv.FreePort(b, "tcp"))
}

// listens reports whether a process listens on a TCP port, without connecting: the
// programs accept once.
func listens(port string) bool {
	n, _ := strconv.Atoi(port)
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}
