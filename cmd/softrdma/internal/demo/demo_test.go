package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/cmd/softrdma/internal/measure"
)

// twoAddresses returns two devices for one test.
func twoAddresses(t *testing.T) string {
	return clitest.LoopbackDevice(t) + "," + clitest.LoopbackDevice(t)
}

func TestDemoTableHasEachOperation(t *testing.T) {
	p := clitest.Start(t, "demo", "--size", "3M", "--addr", twoAddresses(t))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	out := p.Stdout.String()
	// Standard error is not a terminal, so each operation is a line.
	phases := ""
	for i, o := range operations {
		phases += fmt.Sprintf("%d/%d %s\n", i+1, len(operations), o.title)
	}
	if got := p.Stderr.String(); got != phases {
		t.Errorf("expected the phases\n%sfound\n%s", phases, got)
	}
	duration, rate, cpu := `\s*[0-9.]+ (µs|ms|s)\s*`, `\s*[0-9.]+ [KMG]iB/s\s*`, `\s*[0-9.]+ s`
	for _, o := range operations {
		row := []string{regexp.QuoteMeta(o.title) + `\s*`, duration, rate, duration, duration, cpu + `\s*`, cpu}
		if o.count > 0 {
			row[2], row[5], row[6] = `\s*[0-9]+ k/s\s*`, `\s*-\s*`, `\s*-`
		}
		if !regexp.MustCompile(`(?m)^\s*` + strings.Join(row, "│") + `$`).MatchString(out) {
			t.Errorf("expected a row of %s, found\n%s", o.title, out)
		}
	}
	if !regexp.MustCompile(`(?m)^SHA-256 [0-9a-f]{64}$`).MatchString(out) || !strings.Contains(out, "(3 MiB)") {
		t.Errorf("expected the size and the SHA-256, found\n%s", out)
	}
	if !regexp.MustCompile(`(?s)In short: .* RDMA WRITE\s+put\s+8\s+bytes .*kernel\s+TCP\s+took [0-9.]+ .s\.\n$`).MatchString(out) {
		t.Errorf("expected a sentence at the end that says what it means, found\n%s", out)
	}
	fitsTerminal(t, out)
}

// fitsTerminal checks that lines have at most 80 columns and no spaces at their end.
func fitsTerminal(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > terminalWidth || strings.HasSuffix(line, " ") {
			t.Errorf("a line of %d columns, or with spaces at its end: %q", n, line)
		}
	}
}

// wideReport returns a report with wide figures.
func wideReport(size int, write, tcp, writeP50, tcpP50 float64) *report {
	r := &report{File: generatedFile, Bytes: size, SHA256: strings.Repeat("f", 64), Protocol: "RoCE v2", Client: "127.0.0.1:4791", Server: "127.0.0.2:4791", Repeats: 3}
	for _, o := range operations {
		row := resultRow{Name: o.name, Title: o.title, Bytes: int64(size), Count: o.count, Seconds: 123.4, P50: 123_456, P99: 99_999_999}
		row.rate(12345, 12345)
		r.Operations = append(r.Operations, row)
	}
	*r.operation(measure.OpWrite).Gbit, r.operation(measure.OpWrite).P50 = write, writeP50
	*r.operation(measure.OpTCP).Gbit, r.operation(measure.OpTCP).P50 = tcp, tcpP50
	return r
}

func TestDemoReportFitsTerminal(t *testing.T) {
	r := wideReport(defaultSize, 8888.8, 99, 1, 1)
	r.Encrypted, r.Processors = true, 1
	fitsTerminal(t, r.text())
}

func TestDemoConclusionMatchesFigures(t *testing.T) {
	for name, c := range map[string]struct {
		report *report
		words  []string
	}{
		"slower":    {wideReport(defaultSize, 16, 32, 4, 8), []string{"moved the file at 50 % of kernel TCP's rate", "in 4 µs, where kernel TCP took 8 µs"}},
		"as fast":   {wideReport(defaultSize, 30, 32, 4, 8), []string{"moved the file about as fast as kernel TCP"}},
		"faster":    {wideReport(defaultSize, 48, 32, 12.34, 8), []string{"at 1.5 times kernel TCP's rate", "in 12.3 µs"}},
		"small":     {wideReport(1<<20, 16, 32, 1500, 0.5), []string{"RDMA WRITE put 8 bytes", "in 1.50 ms, where kernel TCP took 0.50 µs"}},
		"encrypted": {func() *report { r := wideReport(1<<20, 1, 1, 1, 1); r.Encrypted = true; return r }(), []string{"encrypted here, TCP was not."}},
		"captured":  {func() *report { r := wideReport(1<<20, 1, 1, 1, 1); r.Capture = "x"; return r }(), []string{"measure speed without --pcap"}},
	} {
		got := c.report.conclusion()
		for _, w := range c.words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: expected %q, found %q", name, w, got)
			}
		}
		if strings.Contains(got, "the file") != (c.report.Bytes >= minComparable) {
			t.Errorf("%s: the throughput of %d bytes: %q", name, c.report.Bytes, got)
		}
	}
}

func TestDemoFiguresHaveThreeDigits(t *testing.T) {
	for got, want := range map[string]string{
		duration(0.5): "0.50 µs", duration(9.999): "10.0 µs", duration(99.96): "100 µs", duration(999.9): "1.00 ms", duration(12_340): "12.3 ms", duration(2e6): "2 s",
		binaryBytes(999): "999 B", binaryBytes(256 << 20): "256 MiB", binaryBytes(1023 << 20): "1.00 GiB", binaryBytes(3 << 30): "3 GiB", binaryBytes(1.5 * (1 << 30)): "1.50 GiB",
	} {
		if got != want {
			t.Errorf("expected %q, found %q", want, got)
		}
	}
}

func TestDemoMovesAFile(t *testing.T) {
	// The length is a multiple neither of a message nor of a word.
	data := bytes.Repeat([]byte("softrdma "), 250_000)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal([]byte(clitest.Run(t, "demo", "--json", "--file", file, "--addr", twoAddresses(t))), &r); err != nil {
		t.Fatal(err)
	}
	if r.File != file || r.Bytes != len(data) || r.SHA256 != sha256Hex(data) || r.Client == r.Server || len(r.Operations) != len(operations) {
		t.Fatalf("unexpected report %+v", r)
	}
	for i, o := range operations {
		row := r.Operations[i]
		if row.Name != o.name || row.Count != o.count || row.Seconds <= 0 || row.P50 <= 0 || row.P99 < row.P50 {
			t.Errorf("unexpected row %+v", row)
		}
		if o.count == 0 && (row.Bytes != int64(len(data)) || row.Gbit == nil || *row.Gbit <= 0 || row.ClientCPU == nil || row.ServerCPU == nil) {
			t.Errorf("unexpected row %+v", row)
		}
		if o.count > 0 && (row.Bytes != 0 || row.Rate == nil || *row.Rate <= 0) {
			t.Errorf("unexpected row %+v", row)
		}
	}
}

func TestDemoIPv6ByPorts(t *testing.T) {
	l, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no ::1")
	}
	port := l.LocalAddr().(*net.UDPAddr).Port
	l.Close()
	p := clitest.Start(t, "demo", "--size", "10000", "--addr", fmt.Sprintf("[::1]:%d", port))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	out := p.Stdout.String()
	if !strings.Contains(out, fmt.Sprintf("from [::1]:%d to [::1]:%d,", port, port+1)) {
		t.Errorf("expected the ports %d and %d, found\n%s", port, port+1, out)
	}
}

func TestDemoAvoidsAddressesInUse(t *testing.T) {
	busy := clitest.Start(t, "perf", "write", "bw", "-p", clitest.FreePort(t), "-d", "127.0.0.1")
	time.Sleep(300 * time.Millisecond) // 127.0.0.1 is in use now, whichever process has it
	var r report
	if err := json.Unmarshal([]byte(clitest.Run(t, "demo", "--json", "--size", "100K")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Client == "127.0.0.1:4791" || r.Server == "127.0.0.1:4791" || r.Client == r.Server {
		t.Errorf("expected two free devices, found %s and %s", r.Client, r.Server)
	}
	busy.Cmd.Process.Kill()
}

func TestDemoCapture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	p := clitest.Start(t, "demo", "--pcap", file, "--addr", twoAddresses(t))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	if !strings.Contains(p.Stderr.String(), "4 MiB") || !strings.Contains(p.Stdout.String(), "(4 MiB)") || !strings.Contains(p.Stdout.String(), file) {
		t.Errorf("expected 4 MiB and the capture to be told, found\n%s%s", &p.Stderr, &p.Stdout)
	}
	out := clitest.Run(t, "capture", "--strict", file)
	for _, want := range []string{"RC SEND First", "RC RDMA WRITE", "RC RDMA READ Request", "RC CmpSwap", "RC FetchAdd", "0 faults"} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q in the capture, whose end is\n%s", want, out[max(0, len(out)-2000):])
		}
	}
	if other, _ := filepath.Glob(file + "*"); len(other) != 1 {
		t.Errorf("expected one file, found %v", other)
	}
}

func TestDemoWrongArguments(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, word := range map[string]string{
		"demo extra":               "extra",
		"demo --size x":            "x",
		"demo --size 0":            "--size",
		"demo --size 9G":           "--size",
		"demo --addr a,b,c":        "--addr",
		"demo --addr nowhere":      "nowhere",
		"demo --file " + dir:       "regular file",
		"demo --file " + empty:     "has 0",
		"demo --file x --size 100": "size",
	} {
		clitest.Start(t, strings.Fields(args)...).Fails(cli.ExitUsage, word)
	}
	clitest.Start(t, "demo", "--file", filepath.Join(dir, "missing")).Fails(cli.ExitFailed, "missing")
}

func TestDemoGivenAddressInUse(t *testing.T) {
	a, b := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", clitest.FreePort(t), "-d", b)
	server.Prints("waiting for a client")
	clitest.Start(t, "demo", "--addr", b+","+a).Fails(cli.ExitFailed, "address already in use")
	clitest.Start(t, "demo", "--addr", a+","+b).Fails(cli.ExitFailed, "the other end", "address already in use")
}

// processesWith returns the processes whose command line contains a word.
func processesWith(t *testing.T, word string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if b, err := os.ReadFile(l); err == nil && bytes.Contains(b, []byte(word)) {
			found = append(found, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// However the demo ends, it leaves nothing behind.
func TestDemoInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	for name, signal := range map[string]os.Signal{"interrupt": os.Interrupt, "kill": os.Kill} {
		t.Run(name, func(t *testing.T) {
			a, b := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
			p := clitest.Start(t, "demo", "--size", "1G", "--addr", a+","+b)
			for end := time.Now().Add(clitest.Timeout); len(processesWith(t, peerCommand+"\x00"+b)) != 1; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the second process does not start")
				}
			}
			time.Sleep(500 * time.Millisecond)
			if err := p.Cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			want := cli.ExitInterrupted
			if signal == os.Kill {
				want = -1
			}
			if code := p.ExitCode(); code != want {
				t.Errorf("code %d, expected %d: %s%s", code, want, &p.Stdout, &p.Stderr)
			}
			left := processesWith(t, b)
			for end := time.Now().Add(2 * time.Second); signal == os.Kill && len(left) > 0 && time.Now().Before(end); left = processesWith(t, b) {
				time.Sleep(5 * time.Millisecond) // it is not our child
			}
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			for _, addr := range []string{a, b} {
				l, err := net.ListenPacket("udp", net.JoinHostPort(addr, "4791"))
				if err != nil {
					t.Errorf("a socket is left behind: %v", err)
					continue
				}
				l.Close()
			}
		})
	}
}

// If the second process is killed, the first one says so.
func TestDemoSecondProcessKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	a, b := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
	p := clitest.Start(t, "demo", "--size", "1G", "--addr", a+","+b)
	var pid int
	for end := time.Now().Add(clitest.Timeout); pid == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the second process does not start")
		}
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, l := range lines {
			if c, err := os.ReadFile(l); err == nil && bytes.Contains(c, []byte(peerCommand+"\x00"+b)) {
				fmt.Sscanf(l, "/proc/%d/", &pid)
			}
		}
	}
	time.Sleep(500 * time.Millisecond)
	child, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	child.Kill()
	if code := p.ExitCode(); code != cli.ExitPeer {
		t.Errorf("code %d, expected %d", code, cli.ExitPeer)
	}
	for _, w := range []string{"went away", "signal: killed", "--size"} {
		if !strings.Contains(p.Stderr.String(), w) {
			t.Errorf("expected %q, found %s", w, &p.Stderr)
		}
	}
}
