package pingpong

import (
	"encoding/json"
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

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// A pair is a server and a client.
type pair struct{ server, client *clitest.Process }

// startPair starts a server and, when it waits, a client, both with the given flags.
func startPair(t *testing.T, flags ...string) pair {
	t.Helper()
	return startPairWith(t, nil, nil, flags...)
}

// startPairWith is startPair with additional flags for each side.
func startPairWith(t *testing.T, server, client []string, flags ...string) pair {
	t.Helper()
	port := clitest.FreePort(t)
	flags = append([]string{"pingpong", "-p", port, "--timeout", "20s"}, flags...)
	s := clitest.Start(t, append(append(flags[:len(flags):len(flags)], "-d", clitest.LoopbackDevice(t)), server...)...)
	s.Prints("local address")
	c := clitest.Start(t, append(append(flags[:len(flags):len(flags)], "-d", clitest.LoopbackDevice(t), "127.0.0.1"), client...)...)
	return pair{s, c}
}

func TestPingpongEachService(t *testing.T) {
	for _, service := range services {
		for _, mode := range [][]string{{"-c"}, {"-c", "-e"}, {}, {"-r", "16"}} {
			t.Run(service+strings.Join(mode, ""), func(t *testing.T) {
				p := startPair(t, append([]string{"-t", service, "-n", "200"}, mode...)...)
				checkReport(t, p.client.Succeeds(), service)
				checkReport(t, p.server.Succeeds(), service)
			})
		}
	}
}

var reportLines = regexp.MustCompile(`\n(\d+) bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec\n(\d+) iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter\n$`)

// checkReport checks the lines that ibv_*_pingpong prints.
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
			continue // the UDP port is in the LID
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
			p := startPair(t, append(c, "-c", "-n", "20", "-l", "3")...)
			p.client.Succeeds()
			p.server.Succeeds()
		})
	}
}

func TestPingpongIPv6ByPort(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		testenv.Lacks(t, "IPv6 on the loopback interface: "+err.Error())
	} else {
		l.Close()
	}
	port := clitest.FreePort(t)
	// UDP ports that no other package's tests use: those run at the same time.
	s := clitest.Start(t, "pingpong", "-p", port, "-d", "[::1]:4803", "-n", "50", "-c")
	s.Prints("local address")
	out := clitest.Run(t, "pingpong", "-p", port, "-d", "[::1]:4804", "-n", "50", "-c", "::1")
	s.Succeeds()
	if !strings.Contains(out, "LID 0x12c4") || !strings.Contains(out, "LID 0x12c3") || !strings.Contains(out, "GID ::1") {
		t.Errorf("expected both UDP ports as LIDs, found\n%s", out)
	}
}

func TestPingpongCaptureHoldsAllPackets(t *testing.T) {
	dir := t.TempDir()
	server, client := filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")
	p := startPairWith(t, []string{"--pcap", server}, []string{"--pcap", client}, "-n", "10", "-s", "3000", "-m", "1024")
	p.client.Succeeds()
	p.server.Succeeds()
	for _, file := range []string{server, client} {
		out := clitest.Run(t, "capture", "--strict", file)
		// 3 packets for each of 20 messages, and acknowledges.
		for _, want := range []string{"RC SEND First", "RC SEND Middle", "RC SEND Last", "RC Acknowledge", "0 faults", "BYTES"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: expected %q, found\n%s", file, want, out)
			}
		}
		if n := clitest.Packets(out, "RC SEND First"); n != 20 {
			t.Errorf("%s: %d messages, expected 20", file, n)
		}
	}
}

func TestPingpongSidesDisagree(t *testing.T) {
	t.Run("smaller at the server", func(t *testing.T) {
		p := startPairWith(t, []string{"-s", "100"}, nil)
		p.server.Fails(cli.ExitFailed, "IBV_WC_LOC_LEN_ERR", "softrdma explain")
		p.client.Fails(cli.ExitFailed, "IBV_WC_REM_INV_REQ_ERR")
	})
	t.Run("larger at the server", func(t *testing.T) {
		p := startPairWith(t, []string{"-s", "8000"}, []string{"--timeout", "1s"})
		p.server.Fails(cli.ExitData, "4096 bytes, expected 8000", "-s")
		p.client.Fails(cli.ExitPeer)
	})
	t.Run("check at the server only", func(t *testing.T) {
		p := startPairWith(t, []string{"-c"}, []string{"--timeout", "1s"})
		p.server.Fails(cli.ExitData, "page 0", "expected 0, found 0x7b")
		p.client.Fails(cli.ExitPeer)
	})
	t.Run("queue pairs", func(t *testing.T) {
		p := startPairWith(t, []string{"-q", "3"}, []string{"-q", "4"}, "-t", "srq")
		p.server.Fails(cli.ExitFailed, "more than 3 queue pairs", "-q")
		p.client.Fails(cli.ExitPeer, "closed the connection")
	})
	t.Run("services", func(t *testing.T) {
		p := startPairWith(t, []string{"-t", "srq", "--timeout", "1s"}, []string{"-t", "rc"})
		p.server.Fails(cli.ExitPeer, "same -t")
		p.client.Fails(cli.ExitPeer, "closed the connection")
	})
}

func TestPingpongPeerGone(t *testing.T) {
	for _, flags := range [][]string{{"-t", "rc"}, {"-t", "rc", "-e"}, {"-t", "ud"}, {"-t", "uc", "-e"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			p := startPairWith(t, nil, []string{"--timeout", "2s"}, append(flags, "-n", "1000000000")...)
			p.client.Prints("remote address")
			time.Sleep(100 * time.Millisecond)
			p.server.Cmd.Process.Kill()
			began := time.Now()
			p.client.Fails(cli.ExitPeer)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the client noticed after %v", took)
			}
		})
	}
}

func TestPingpongWithoutServer(t *testing.T) {
	clitest.Start(t, "pingpong", "-p", clitest.FreePort(t), "-d", clitest.LoopbackDevice(t), "127.0.0.1").Fails(cli.ExitPeer, "start the pingpong without HOST first")
}

func TestPingpongServerRejectsOtherPrograms(t *testing.T) {
	const good = "0000:000123:000000:00000000000000000000ffff7f000001\x00"
	for _, c := range []struct {
		name, says string
		code       int
		words      string
	}{
		{"silent", "", cli.ExitPeer, "sent nothing for 1s"},
		{"short", "hello\n", cli.ExitPeer, "sent nothing for 1s"},
		{"other text", strings.Repeat("GET / HTTP/1.1\r\n", 8), cli.ExitFailed, "expected LID:QPN:PSN:GID"},
		{"no hexadecimal", strings.Replace(good, "123", "zzz", 1), cli.ExitFailed, "24 bits"},
		{"GID no hexadecimal", strings.Replace(good, "7f000001", "7f00000z", 1), cli.ExitFailed, "GID"},
		{"no GID", strings.Replace(good, "ffff7f000001", "000000000000", 1), cli.ExitFailed, "-g INDEX"},
		{"queue pair 0", strings.Replace(good, "123", "000", 1), cli.ExitFailed, "queue pair 0"},
		{"IPv6", strings.Replace(good, "0000000000000000ffff", "20010db800000000ffff", 1), cli.ExitFailed, "family"},
		{"not done", good + "ready", cli.ExitFailed, `expected "done\x00", found "ready"`},
		{"goes away", good, cli.ExitPeer, "sent nothing for 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := clitest.FreePort(t)
			timeout := "20s"
			if strings.Contains(c.words, "for 1s") {
				timeout = "1s"
			}
			s := clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t), "--timeout", timeout)
			s.Prints("local address")
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.says)
			s.Fails(c.code, c.words)
		})
	}
}

func TestPingpongClientRejectsOtherServers(t *testing.T) {
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
	clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t), "127.0.0.1").Fails(cli.ExitFailed, "expected LID:QPN:PSN:GID", "220 mail")
}

func TestPingpongInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for sig, end := range map[os.Signal]struct {
		code int
		word string
	}{os.Interrupt: {cli.ExitInterrupted, "interrupted"}, syscall.SIGTERM: {cli.ExitTerminated, "terminated"}} {
		for _, flags := range [][]string{{}, {"-e"}, {"-t", "ud"}} {
			dev, port, file := clitest.LoopbackDevice(t), clitest.FreePort(t), filepath.Join(t.TempDir(), "x.pcapng")
			args := append([]string{"pingpong", "-p", port, "-n", "1000000000"}, flags...)
			s := clitest.Start(t, append(args[:len(args):len(args)], "-d", dev, "--pcap", file)...)
			s.Prints("local address")
			c := clitest.Start(t, append(args[:len(args):len(args)], "-d", clitest.LoopbackDevice(t), "--timeout", "1s", "127.0.0.1")...)
			c.Prints("remote address")
			time.Sleep(50 * time.Millisecond)
			s.Cmd.Process.Signal(sig)
			s.Fails(end.code, end.word)
			c.Fails(cli.ExitPeer)
			clitest.CheckFree(t, dev, port)
			if out := clitest.Run(t, "capture", file); !strings.Contains(out, "0 faults") {
				t.Errorf("the capture has faults:\n%s", out)
			}
		}
	}
}

func TestPingpongInterruptedWhileWaiting(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	dev, port := clitest.LoopbackDevice(t), clitest.FreePort(t)
	s := clitest.Start(t, "pingpong", "-p", port, "-d", dev)
	s.Prints("local address")
	s.Cmd.Process.Signal(os.Interrupt)
	s.Fails(cli.ExitInterrupted, "interrupted")
	clitest.CheckFree(t, dev, port)
}

func TestPingpongDeviceRefusals(t *testing.T) {
	dev, port := clitest.LoopbackDevice(t), clitest.FreePort(t)
	s := clitest.Start(t, "pingpong", "-p", port, "-d", dev)
	s.Prints("local address")
	clitest.Start(t, "pingpong", "-p", clitest.FreePort(t), "-d", dev).Fails(cli.ExitFailed, "in use", dev)
	clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t)).Fails(cli.ExitFailed, "TCP port "+port+" is in use", "-p")
	clitest.Start(t, "pingpong", "-d", "nosuch0").Fails(cli.ExitFailed, "nosuch0")
	clitest.Start(t, "pingpong", "-d", clitest.LoopbackDevice(t), "-t", "ud", "-s", "4097").Fails(cli.ExitUsage, "4096")
	clitest.Start(t, "pingpong", "-d", clitest.LoopbackDevice(t), "--pcap", filepath.Join(t.TempDir(), "no", "file")).Fails(cli.ExitFailed, "--pcap")
}

func TestPingpongWithoutAnAnswerNamesHostPortAndFirewall(t *testing.T) {
	_, err := dialExchange(t.Context(), "127.0.0.1", 18515, time.Nanosecond)
	if cli.ExitCode(err) != cli.ExitPeer {
		t.Fatalf("found %v", err)
	}
	for _, w := range []string{"no answer from 127.0.0.1", "TCP port 18515", "firewall"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("expected %q in %q", w, err)
		}
	}
}

// With --json standard output holds the result and nothing else.
func TestPingpongResultAsJSON(t *testing.T) {
	port := clitest.FreePort(t)
	server := clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t), "-n", "7")
	server.Prints("local address")
	client := clitest.Start(t, "pingpong", "-p", port, "-d", clitest.LoopbackDevice(t), "-n", "7", "--json", "127.0.0.1")
	var p record
	if code := client.ExitCode(); code != cli.ExitOK || json.Unmarshal([]byte(client.Stdout.String()), &p) != nil {
		t.Fatalf("code %d: %s%s", code, &client.Stdout, &client.Stderr)
	}
	server.Succeeds()
	if p.Type != "rc" || p.Iters != 7 || p.Size != 4096 || p.Bytes != 2*7*4096 || p.Seconds <= 0 || p.Usec <= 0 || p.Mbit <= 0 {
		t.Errorf("found %+v", p)
	}
}
