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

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/testenv"
	"softrdma/verbs"
)

// twoAddresses returns two devices for one test.
func twoAddresses(t *testing.T) string {
	return clitest.LoopbackDevice(t) + "," + clitest.LoopbackDevice(t)
}

// memoryPath gives the demo a directory of its own for the path through memory. It
// returns the paths that the demo then uses.
func memoryPath(t *testing.T) []verbs.Path {
	t.Setenv("SOFTRDMA_HOST_DIR", t.TempDir())
	if runtime.GOOS != "linux" {
		return []verbs.Path{verbs.PathNetwork}
	}
	return []verbs.Path{verbs.PathSameHost, verbs.PathNetwork}
}

// phases returns the lines of the progress.
func phases(paths []verbs.Path) string {
	var titles []string
	for i, p := range paths {
		for _, o := range operations {
			if o.name != measure.OpTCP || i == len(paths)-1 {
				titles = append(titles, o.phase(p))
			}
		}
	}
	s := ""
	for i, title := range titles {
		s += fmt.Sprintf("%d/%d %s\n", i+1, len(titles), title)
	}
	return s
}

func TestDemoTableHasEachOperation(t *testing.T) {
	paths := memoryPath(t)
	p := clitest.Start(t, "demo", "--size", "3M", "--addr", twoAddresses(t))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	out := p.Stdout.String()
	// Standard error is not a terminal, so each operation is a line.
	if got := p.Stderr.String(); got != phases(paths) {
		t.Errorf("expected the phases\n%sfound\n%s", phases(paths), got)
	}
	duration, rate := `\s*[0-9.]+ (µs|ms|s)\s*`, `\s*[0-9.]+ [MG]B/s\s*`
	for _, o := range operations {
		row := []string{regexp.QuoteMeta(o.title) + `\s*`}
		for i := range paths {
			figures := []string{rate, duration, duration}
			switch {
			case o.count > 0:
				figures[0] = `\s*[0-9.]+ [kM]/s\s*`
			case o.name == measure.OpTCP && i < len(paths)-1:
				figures = []string{`\s*-\s*`, `\s*-\s*`, `\s*-\s*`}
			}
			row = append(row, figures...)
		}
		if !regexp.MustCompile(`(?m)^\s*` + strings.Join(row, "│") + `$`).MatchString(out) {
			t.Errorf("expected a row of %s, found\n%s", o.title, out)
		}
	}
	for _, p := range paths {
		if !strings.Contains(out, pathTitle(p)) {
			t.Errorf("expected columns for %s, found\n%s", p, out)
		}
	}
	if !regexp.MustCompile(`(?m)^SHA-256 [0-9a-f]{64}$`).MatchString(out) || !strings.Contains(out, "(3 MiB)") {
		t.Errorf("expected the size and the SHA-256, found\n%s", out)
	}
	if !regexp.MustCompile(`(?s)In short: .* RDMA\s+WRITE.*\s+put\s+8\s+bytes .*TCP\s+took\s+[0-9.]+ .s[^.]*(\. ?[0-9]+ .s)?\.\n$`).MatchString(out) {
		t.Errorf("expected a sentence at the end that says what it means, found\n%s", out)
	}
	fitsTerminal(t, out, fullWidth)
}

func TestDemoSaysWhyNothingWentThroughMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTRDMA_HOST_DIR", file)
	name := "HOST_DIRECTORY"
	if runtime.GOOS != "linux" {
		name = "HOST_UNSUPPORTED"
	}
	p := clitest.Start(t, "demo", "--size", "100K", "--addr", twoAddresses(t))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	out := strings.Join(strings.Fields(p.Stdout.String()), " ")
	for _, want := range []string{"Not through memory: ", "softrdma explain " + name, "through the network stack operation", "kernel TCP", "In short: "} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q, found\n%s", want, &p.Stdout)
		}
	}
	if strings.Contains(out, "through memory put") {
		t.Errorf("a figure of the path through memory:\n%s", &p.Stdout)
	}
	clitest.Start(t, "demo", "--size", "100K", "--same-host", "require", "--addr", twoAddresses(t)).Fails(cli.ExitFailed, "directory")
}

func TestDemoWithSameHostOff(t *testing.T) {
	memoryPath(t)
	var r report
	if err := json.Unmarshal([]byte(clitest.Run(t, "demo", "--json", "--size", "100K", "--same-host", "off", "--addr", twoAddresses(t))), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Operations) != len(operations) || r.Reason != "HOST_OFF" || r.missing() != "Not through memory: --same-host off." {
		t.Errorf("unexpected report %+v", r)
	}
	for i, o := range operations { // a small file
		if row := r.Operations[i]; row.Count != o.count/slowDivisor {
			t.Errorf("unexpected row %+v", row)
		}
	}
}

func TestDemoMovesAFile(t *testing.T) {
	paths := memoryPath(t)
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
	if r.File != file || r.Bytes != len(data) || r.SHA256 != sha256Hex(data) || r.Client == r.Server || len(r.Operations) != len(paths)*(len(operations)-1)+1 {
		t.Fatalf("unexpected report %+v", r)
	}
	for i, row := range r.Operations {
		session := min(i/(len(operations)-1), len(paths)-1) // the last one has one row more
		o, path := operations[i-session*(len(operations)-1)], paths[session]
		if row.Path != path {
			t.Errorf("expected path %q, found %q", path, row.Path)
		}
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
	if l, err := net.ListenPacket("udp", "[::1]:0"); err != nil {
		t.Skip("this machine has no ::1")
	} else {
		l.Close()
	}
	port := testenv.FreePort(t, "udp")
	for next := testenv.FreePort(t, "udp"); next != port+1; next = testenv.FreePort(t, "udp") {
		port = next // the demo's second device takes the next port
	}
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
	for ended := false; !ended && !strings.Contains(busy.Stdout.String(), "waiting for a client"); {
		select {
		case <-busy.Ended: // another process has 127.0.0.1
			ended = true
		case <-time.After(5 * time.Millisecond):
		}
	}
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
	paths := memoryPath(t)
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	p := clitest.Start(t, "demo", "--pcap", file, "--addr", twoAddresses(t))
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, &p.Stderr)
	}
	if !strings.Contains(p.Stderr.String(), "4 MiB") || !strings.Contains(p.Stdout.String(), "(4 MiB)") || !strings.Contains(p.Stdout.String(), file) {
		t.Errorf("expected 4 MiB and the capture to be told, found\n%s%s", &p.Stderr, &p.Stdout)
	}
	files, _ := filepath.Glob(strings.TrimSuffix(file, ".pcapng") + "*")
	if len(files) != len(paths) {
		t.Errorf("expected a file for each of %q, found %v", paths, files)
	}
	for _, file := range files {
		out := clitest.Run(t, "capture", "--strict", file)
		for _, want := range []string{"RC SEND First", "RC RDMA WRITE", "RC RDMA READ Request", "RC CmpSwap", "RC FetchAdd", "0 faults"} {
			if !strings.Contains(out, want) {
				t.Errorf("expected %q in the capture %s, whose end is\n%s", want, file, out[max(0, len(out)-2000):])
			}
		}
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
			memoryPath(t)
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
			for end := time.Now().Add(20 * time.Second); signal == os.Kill && len(left) > 0 && time.Now().Before(end); left = processesWith(t, b) {
				time.Sleep(5 * time.Millisecond) // it is not our child
			}
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			// A killed process cannot remove its devices' sockets.
			names, err := os.ReadDir(os.Getenv("SOFTRDMA_HOST_DIR"))
			if err != nil || signal == os.Interrupt && len(names) > 0 {
				t.Errorf("left in the directory of devices: %v, %v", names, err)
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
