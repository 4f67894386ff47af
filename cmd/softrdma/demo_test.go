package main

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
)

// demoAddrs are two devices of the demo's own.
func demoAddrs(t *testing.T) string { return loopbackDevice(t) + "," + loopbackDevice(t) }

func TestDemoTableHasEachOperation(t *testing.T) {
	out := run(t, "demo", "--size", "3M", "--addr", demoAddrs(t))
	number := `\s*[0-9.]+\s*`
	latency := `\s*[0-9.]+ µs\s*`
	for _, o := range demoOperations {
		row := []string{regexp.QuoteMeta(o.title) + `\s*`, `\s*3145728\s*`, `\s*[0-9.]+ s\s*`, number, latency, latency, number, number, `\s*SHA-256\s*`}
		if o.count > 0 {
			row[1], row[3], row[6], row[7], row[8] = fmt.Sprintf(`\s*%d × 8\s*`, o.count), `\s*-\s*`, `\s*-\s*`, `\s*-\s*`, `\s*sum\s*`
		}
		if !regexp.MustCompile(`(?m)^\s*` + strings.Join(row, "│") + `$`).MatchString(out) {
			t.Errorf("expected a row of %s, found\n%s", o.title, out)
		}
	}
	if !regexp.MustCompile(`(?m)^SHA-256 [0-9a-f]{64} at both ends\.$`).MatchString(out) {
		t.Errorf("expected the SHA-256, found\n%s", out)
	}
}

func TestDemoMovesAFile(t *testing.T) {
	// Neither a whole number of messages nor of words.
	data := bytes.Repeat([]byte("softrdma "), 250_000)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var r demoReport
	if err := json.Unmarshal([]byte(run(t, "demo", "--json", "--file", file, "--addr", demoAddrs(t))), &r); err != nil {
		t.Fatal(err)
	}
	if r.File != file || r.Bytes != len(data) || r.SHA256 != sumOf(data) || r.Client == r.Server || len(r.Operations) != len(demoOperations) {
		t.Fatalf("unexpected report %+v", r)
	}
	for i, o := range demoOperations {
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
	out := run(t, "demo", "--size", "10000", "--addr", fmt.Sprintf("[::1]:%d", port))
	if !strings.Contains(out, fmt.Sprintf("from [::1]:%d to [::1]:%d ", port, port+1)) {
		t.Errorf("expected the ports %d and %d, found\n%s", port, port+1, out)
	}
}

func TestDemoWithoutAddressesAvoidsBusyOnes(t *testing.T) {
	busy := start(t, "perf", "write", "bw", "-p", freePort(t), "-d", "127.0.0.1")
	time.Sleep(300 * time.Millisecond) // whoever has 127.0.0.1 now, it is busy
	var r demoReport
	if err := json.Unmarshal([]byte(run(t, "demo", "--json", "--size", "100K")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Client == "127.0.0.1:4791" || r.Server == "127.0.0.1:4791" || r.Client == r.Server {
		t.Errorf("expected two free devices, found %s and %s", r.Client, r.Server)
	}
	busy.cmd.Process.Kill()
}

func TestDemoCapture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	p := start(t, "demo", "--pcap", file, "--addr", demoAddrs(t))
	if code := p.code(); code != exitOK {
		t.Fatalf("code %d: %s", code, &p.stderr)
	}
	if !strings.Contains(p.stderr.String(), "4 MiB") || !strings.Contains(p.stdout.String(), "4194304") || !strings.Contains(p.stdout.String(), file) {
		t.Errorf("expected 4 MiB and the capture to be told, found\n%s%s", &p.stderr, &p.stdout)
	}
	out := run(t, "capture", "--strict", file)
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
		start(t, strings.Fields(args)...).fails(exitUsage, word)
	}
	start(t, "demo", "--file", filepath.Join(dir, "missing")).fails(exitFailed, "missing")
}

func TestDemoGivenAddressInUse(t *testing.T) {
	a, b := loopbackDevice(t), loopbackDevice(t)
	server := start(t, "perf", "write", "bw", "-p", freePort(t), "-d", b)
	server.prints("waiting for a client")
	start(t, "demo", "--addr", b+","+a).fails(exitFailed, "address already in use")
	start(t, "demo", "--addr", a+","+b).fails(exitFailed, "the other end", "address already in use")
}

// processesWith gives the processes whose command line holds a word.
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

// However the demo ends, nothing of it is left.
func TestDemoInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	for name, signal := range map[string]os.Signal{"interrupt": os.Interrupt, "kill": os.Kill} {
		t.Run(name, func(t *testing.T) {
			a, b := loopbackDevice(t), loopbackDevice(t)
			p := start(t, "demo", "--size", "1G", "--addr", a+","+b)
			for end := time.Now().Add(patience); len(processesWith(t, demoPeerName+"\x00"+b)) != 1; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the second process does not start")
				}
			}
			time.Sleep(500 * time.Millisecond)
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			want := exitInterrupted
			if signal == os.Kill {
				want = -1
			}
			if code := p.code(); code != want {
				t.Errorf("code %d, expected %d: %s%s", code, want, &p.stdout, &p.stderr)
			}
			left := processesWith(t, b)
			for end := time.Now().Add(2 * time.Second); signal == os.Kill && len(left) > 0 && time.Now().Before(end); left = processesWith(t, b) {
				time.Sleep(5 * time.Millisecond) // nobody waits for it
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

// The second process may be killed as well; the first one says so.
func TestDemoSecondProcessThatDies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	a, b := loopbackDevice(t), loopbackDevice(t)
	p := start(t, "demo", "--size", "1G", "--addr", a+","+b)
	var pid int
	for end := time.Now().Add(patience); pid == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the second process does not start")
		}
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, l := range lines {
			if c, err := os.ReadFile(l); err == nil && bytes.Contains(c, []byte(demoPeerName+"\x00"+b)) {
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
	p.fails(exitPeer, "went away")
}
