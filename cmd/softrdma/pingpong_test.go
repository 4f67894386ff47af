package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// A pair is two pingpongs, as two users start them.
type pair struct{ server, client *process }

// pingPair starts a server and, when it waits, a client, both with flags.
func pingPair(t *testing.T, flags ...string) pair {
	t.Helper()
	return pingPairDiffering(t, nil, nil, flags...)
}

// pingPairDiffering is pingPair with flags of either side.
func pingPairDiffering(t *testing.T, server, client []string, flags ...string) pair {
	t.Helper()
	port := freePort(t)
	flags = append([]string{"pingpong", "-p", port, "--timeout", "20s"}, flags...)
	s := start(t, append(append(flags[:len(flags):len(flags)], "-d", loopbackDevice(t)), server...)...)
	s.prints("local address")
	c := start(t, append(append(flags[:len(flags):len(flags)], "-d", loopbackDevice(t), "127.0.0.1"), client...)...)
	return pair{s, c}
}

func TestPingpongEachService(t *testing.T) {
	for _, service := range pingpongKinds {
		for _, mode := range [][]string{{"-c"}, {"-c", "-e"}, {}, {"-r", "16"}} {
			t.Run(service+strings.Join(mode, ""), func(t *testing.T) {
				p := pingPair(t, append([]string{"-t", service, "-n", "200"}, mode...)...)
				checkReport(t, p.client.succeeds(), service)
				checkReport(t, p.server.succeeds(), service)
			})
		}
	}
}

var reportLines = regexp.MustCompile(`\n(\d+) bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec\n(\d+) iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter\n$`)

// checkReport wants the lines that ibv_*_pingpong prints.
func checkReport(t *testing.T, out, service string) {
	t.Helper()
	qps, bytes, separator := 1, "1638400", ","
	switch service {
	case "srq":
		qps = 16
	case "ud":
		bytes, separator = "409600", ":"
	}
	const numbers = `LID 0x0000, QPN 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}`
	for side, sep := range map[string]string{"local address:  ": separator, "remote address: ": ","} {
		lines := regexp.MustCompile(`(?m)^  ` + side + numbers + sep + ` GID ::ffff:127\.\d+\.\d+\.\d+$`)
		if runtime.GOOS == "darwin" {
			continue // the port is in the LID
		}
		if n := len(lines.FindAllString(out, -1)); n != qps {
			t.Errorf("%d lines of %q, expected %d, in\n%s", n, side, qps, out)
		}
	}
	m := reportLines.FindStringSubmatch(out)
	if m == nil || m[1] != bytes || m[2] != "200" {
		t.Errorf("expected %s bytes and 200 iters, found\n%s", bytes, out)
	}
}

func TestPingpongSizes(t *testing.T) {
	for _, c := range [][]string{
		{"-s", "1"}, {"-s", "1023"}, {"-s", "1025"}, {"-s", "64K", "-m", "4096"}, {"-s", "1M"}, {"-s", "1M", "-t", "srq", "-r", "20"},
		{"-s", "1", "-t", "ud"}, {"-s", "4096", "-t", "ud"}, {"-s", "1", "-t", "uc"}, {"-s", "64K", "-t", "uc", "-m", "256"}, {"-s", "1", "-m", "256", "-t", "srq"},
	} {
		t.Run(strings.Join(c, ""), func(t *testing.T) {
			p := pingPair(t, append(c, "-c", "-n", "20", "-l", "3")...)
			p.client.succeeds()
			p.server.succeeds()
		})
	}
}

func TestPingpongIPv6ByPort(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		lacks(t, "IPv6 on the loopback interface: "+err.Error())
	} else {
		l.Close()
	}
	port := freePort(t)
	s := start(t, "pingpong", "-p", port, "-d", "[::1]:4801", "-n", "50", "-c")
	s.prints("local address")
	out := run(t, "pingpong", "-p", port, "-d", "[::1]:4802", "-n", "50", "-c", "::1")
	s.succeeds()
	if !strings.Contains(out, "LID 0x12c2") || !strings.Contains(out, "LID 0x12c1") || !strings.Contains(out, "GID ::1") {
		t.Errorf("expected both UDP ports as LIDs, found\n%s", out)
	}
}

func TestPingpongCaptureHoldsAllPackets(t *testing.T) {
	dir := t.TempDir()
	server, client := filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")
	p := pingPairDiffering(t, []string{"--pcap", server}, []string{"--pcap", client}, "-n", "10", "-s", "3000", "-m", "1024")
	p.client.succeeds()
	p.server.succeeds()
	for _, file := range []string{server, client} {
		out := run(t, "capture", "--strict", file)
		// 3 packets a message, 20 messages, and acknowledges.
		for _, want := range []string{"RC SEND First", "RC SEND Middle", "RC SEND Last", "RC Acknowledge", "0 faults", "BYTES"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: expected %q, found\n%s", file, want, out)
			}
		}
		if n := strings.Count(out, "RC SEND First"); n != 20 {
			t.Errorf("%s: %d messages, expected 20", file, n)
		}
	}
}

func TestPingpongSidesDisagree(t *testing.T) {
	t.Run("smaller at the server", func(t *testing.T) {
		p := pingPairDiffering(t, []string{"-s", "100"}, nil)
		p.server.fails(exitFailed, "IBV_WC_LOC_LEN_ERR", "softrdma explain")
		p.client.fails(exitFailed, "IBV_WC_REM_INV_REQ_ERR")
	})
	t.Run("larger at the server", func(t *testing.T) {
		p := pingPairDiffering(t, []string{"-s", "8000"}, []string{"--timeout", "1s"})
		p.server.fails(exitData, "4096 bytes, expected 8000", "-s")
		p.client.fails(exitPeer)
	})
	t.Run("check at the server only", func(t *testing.T) {
		p := pingPairDiffering(t, []string{"-c"}, []string{"--timeout", "1s"})
		p.server.fails(exitData, "page 0", "expected 0, found 0x7b")
		p.client.fails(exitPeer)
	})
	t.Run("queue pairs", func(t *testing.T) {
		p := pingPairDiffering(t, []string{"-q", "3"}, []string{"-q", "4"}, "-t", "srq")
		p.server.fails(exitFailed, "more than 3 queue pairs", "-q")
		p.client.fails(exitPeer, "closed the connection")
	})
	t.Run("services", func(t *testing.T) {
		p := pingPairDiffering(t, []string{"-t", "srq", "--timeout", "1s"}, []string{"-t", "rc"})
		p.server.fails(exitPeer, "same -t")
		p.client.fails(exitPeer, "closed the connection")
	})
}

func TestPingpongPeerGone(t *testing.T) {
	for _, flags := range [][]string{{"-t", "rc"}, {"-t", "rc", "-e"}, {"-t", "ud"}, {"-t", "uc", "-e"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			p := pingPairDiffering(t, nil, []string{"--timeout", "2s"}, append(flags, "-n", "1000000000")...)
			p.client.prints("remote address")
			time.Sleep(100 * time.Millisecond)
			p.server.cmd.Process.Kill()
			began := time.Now()
			p.client.fails(exitPeer)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the client noticed after %v", took)
			}
		})
	}
}

func TestPingpongNobodyWaits(t *testing.T) {
	start(t, "pingpong", "-p", freePort(t), "-d", loopbackDevice(t), "127.0.0.1").fails(exitPeer, "start the one without HOST first")
}

func TestPingpongStrangerOnThePort(t *testing.T) {
	const good = "0000:000123:000000:00000000000000000000ffff7f000001\x00"
	for _, c := range []struct {
		name, says string
		code       int
		words      string
	}{
		{"silent", "", exitPeer, "sent nothing for 1s"},
		{"short", "hello\n", exitPeer, "sent nothing for 1s"},
		{"other text", strings.Repeat("GET / HTTP/1.1\r\n", 8), exitFailed, "expected LID:QPN:PSN:GID"},
		{"no hexadecimal", strings.Replace(good, "123", "zzz", 1), exitFailed, "24 bits"},
		{"GID no hexadecimal", strings.Replace(good, "7f000001", "7f00000z", 1), exitFailed, "GID"},
		{"no GID", strings.Replace(good, "ffff7f000001", "000000000000", 1), exitFailed, "-g INDEX"},
		{"queue pair 0", strings.Replace(good, "123", "000", 1), exitFailed, "queue pair 0"},
		{"IPv6", strings.Replace(good, "0000000000000000ffff", "20010db800000000ffff", 1), exitFailed, "family"},
		{"not done", good + "ready", exitFailed, `expected "done\x00", found "ready"`},
		{"goes away", good, exitPeer, "sent nothing for 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := freePort(t)
			s := start(t, "pingpong", "-p", port, "-d", loopbackDevice(t), "--timeout", "1s")
			s.prints("local address")
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.says)
			s.fails(c.code, c.words)
		})
	}
}

func TestPingpongStrangerAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(conn, "220 mail.example.org ESMTP ready to take your messages\r\n")
		io.Copy(io.Discard, conn)
		conn.Close()
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	start(t, "pingpong", "-p", port, "-d", loopbackDevice(t), "127.0.0.1").fails(exitFailed, "expected LID:QPN:PSN:GID", "220 mail")
}

func TestPingpongInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		for _, flags := range [][]string{{}, {"-e"}, {"-t", "ud"}} {
			dev, port, file := loopbackDevice(t), freePort(t), filepath.Join(t.TempDir(), "x.pcapng")
			args := append([]string{"pingpong", "-p", port, "-n", "1000000000"}, flags...)
			s := start(t, append(args[:len(args):len(args)], "-d", dev, "--pcap", file)...)
			s.prints("local address")
			c := start(t, append(args[:len(args):len(args)], "-d", loopbackDevice(t), "--timeout", "1s", "127.0.0.1")...)
			c.prints("remote address")
			time.Sleep(50 * time.Millisecond)
			s.cmd.Process.Signal(sig)
			s.fails(exitInterrupted, "interrupted")
			c.fails(exitPeer)
			checkFree(t, dev, port)
			if out := run(t, "capture", file); !strings.Contains(out, "0 faults") {
				t.Errorf("the capture is not whole:\n%s", out)
			}
		}
	}
}

func TestPingpongInterruptedWhileWaiting(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	dev, port := loopbackDevice(t), freePort(t)
	s := start(t, "pingpong", "-p", port, "-d", dev)
	s.prints("local address")
	s.cmd.Process.Signal(os.Interrupt)
	s.fails(exitInterrupted, "interrupted")
	checkFree(t, dev, port)
}

// checkFree wants the device and the TCP port to be free again.
func checkFree(t *testing.T, dev, port string) {
	t.Helper()
	d, err := verbs.Open(dev, verbs.Config{})
	if err != nil {
		t.Error(err)
	} else {
		d.Close()
	}
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

func TestPingpongDeviceRefusals(t *testing.T) {
	dev, port := loopbackDevice(t), freePort(t)
	s := start(t, "pingpong", "-p", port, "-d", dev)
	s.prints("local address")
	start(t, "pingpong", "-p", freePort(t), "-d", dev).fails(exitFailed, "in use", dev)
	start(t, "pingpong", "-p", port, "-d", loopbackDevice(t)).fails(exitFailed, "TCP port "+port+" is in use", "-p")
	start(t, "pingpong", "-d", "nosuch0").fails(exitFailed, "nosuch0")
	start(t, "pingpong", "-d", loopbackDevice(t), "-t", "ud", "-s", "4097").fails(exitUsage, "4096")
	start(t, "pingpong", "-d", loopbackDevice(t), "--pcap", filepath.Join(t.TempDir(), "no", "file")).fails(exitFailed, "--pcap")
}

func TestPingpongWithoutAnAnswerNamesHostPortAndFirewall(t *testing.T) {
	_, err := dialExchange(t.Context(), "127.0.0.1", 18515, time.Nanosecond)
	if exitCode(err) != exitPeer {
		t.Fatalf("found %v", err)
	}
	for _, w := range []string{"no answer from 127.0.0.1", "TCP port 18515", "firewall"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("expected %q in %q", w, err)
		}
	}
}
