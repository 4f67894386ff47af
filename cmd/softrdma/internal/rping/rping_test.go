package rping

import (
	"encoding/json"
	"fmt"
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
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// startPair starts a server and, when it waits, a client.
func startPair(t *testing.T, server, client string) (s, c *clitest.Process) {
	t.Helper()
	at := clitest.ServerAddress(t)
	s = clitest.Start(t, append([]string{"rping", "-s", "-a", at}, strings.Fields(server)...)...)
	s.Prints("waiting for a client on " + at + " port 7174")
	c = clitest.Start(t, append([]string{"rping", "-c", "-a", at, "-I", clitest.LoopbackDevice(t)}, strings.Fields(client)...)...)
	return s, c
}

var reportLine = regexp.MustCompile(`(?m)^(\d+) pings? of (\d+) bytes in \d+\.\d{3} seconds, \d+\.\d\d usec/ping(, data validated)?$`)

func TestRpingEachModeValidates(t *testing.T) {
	for _, server := range []string{"-V", "-V -q"} {
		for _, client := range []string{"-S 64", "-S 23", "-S 65535", "-S 4097 -q"} {
			t.Run(server+client, func(t *testing.T) {
				s, c := startPair(t, server, "-V -C 20 "+client)
				m := reportLine.FindStringSubmatch(c.Succeeds())
				if size := strings.Fields(client)[1]; m == nil || m[1] != "20" || m[2] != size || m[3] == "" {
					t.Errorf("expected 20 validated pings of %s bytes, found %q", size, &c.Stdout)
				}
				if out := s.Succeeds(); !strings.Contains(out, ": 20 pings, data validated\n") {
					t.Errorf("expected 20 validated pings, found %q", out)
				}
			})
		}
	}
}

// The output equals that of rping -v, also when the alphabet wraps around.
func TestRpingPrintsPings(t *testing.T) {
	s, c := startPair(t, "-v", "-v -C 59 -S 30")
	client, server := c.Succeeds(), s.Succeeds()
	for n, text := range map[int]string{0: "ABCDEFGHIJKLMNOP", 1: "BCDEFGHIJKLMNOPQ", 57: "zABCDEFGHIJKLMN", 58: "ABCDEFGHIJKLMNO"} {
		for side, out := range map[string]string{"ping data": client, "server ping data": server} {
			if want := fmt.Sprintf("%s: rdma-ping-%d: %s\n", side, n, text); !strings.Contains(out, want) {
				t.Errorf("expected %q, found\n%s", want, out)
			}
		}
	}
}

func TestRpingPersistentServerTakesManyClients(t *testing.T) {
	at := clitest.ServerAddress(t)
	for _, flags := range []string{"-P", "-P -q"} {
		s := clitest.Start(t, append([]string{"rping", "-s", "-V", "-a", at}, strings.Fields(flags)...)...)
		s.Prints("waiting")
		var clients []*clitest.Process
		for range 4 {
			clients = append(clients, clitest.Start(t, "rping", "-c", "-V", "-C", "50", "-a", at, "-I", clitest.LoopbackDevice(t)))
		}
		for _, c := range clients {
			c.Succeeds()
		}
		for end := time.Now().Add(clitest.Timeout); strings.Count(s.Stdout.String(), ": 50 pings, data validated") < len(clients) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if n := strings.Count(s.Stdout.String(), ": 50 pings, data validated"); n != len(clients) {
			t.Errorf("%s: the server reports %d clients, expected %d:\n%s", flags, n, len(clients), &s.Stdout)
		}
		if runtime.GOOS == "windows" {
			s.Cmd.Process.Kill()
			<-s.Ended
			continue
		}
		s.Cmd.Process.Signal(os.Interrupt)
		s.Fails(cli.ExitInterrupted, "interrupted")
	}
}

func TestRpingSidesDisagree(t *testing.T) {
	s, c := startPair(t, "-S 100", "-S 101")
	s.Fails(cli.ExitPeer, "ping 0", "ping of 101 bytes, this side takes 100", "-S")
	c.Fails(cli.ExitPeer, "ping 0", "disconnected by")
}

func TestRpingWithoutServer(t *testing.T) {
	at := clitest.ServerAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"-q=false", "-q"} {
		// The device is open without a listener, so the answer comes at once.
		clitest.Start(t, "rping", "-c", own, "-a", at, "--timeout", "1h", "-I", clitest.LoopbackDevice(t)).Fails(cli.ExitPeer, "nothing listens at "+at+":7174", `"softrdma rping -s"`, "reason 8")
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"-q=false", "-q"} {
		clitest.Start(t, "rping", "-c", own, "-a", at, "--timeout", "300ms", "-I", clitest.LoopbackDevice(t)).Fails(cli.ExitPeer, "no answer from "+at+":7174 within 300ms", "UDP port 4791")
		clitest.Start(t, "rping", "-c", own, "-a", "host.invalid").Fails(cli.ExitPeer, "host.invalid")
	}
}

func TestRpingPeerGone(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			s, c := startPair(t, "-v --timeout 5s", "-v --timeout 5s")
			s.Prints("rdma-ping-5:")
			c.Prints("rdma-ping-5:")
			dies, lives := c, s
			if who == "server" {
				dies, lives = s, c
			}
			dies.Cmd.Process.Kill()
			lives.Fails(cli.ExitPeer, "ping ")
		})
	}
}

func TestRpingInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for _, flags := range []string{"", "-q"} {
		t.Run("client"+flags, func(t *testing.T) {
			s, c := startPair(t, flags, "-v "+flags)
			c.Prints("rdma-ping-5:")
			c.Cmd.Process.Signal(os.Interrupt)
			c.Fails(cli.ExitInterrupted, "interrupted")
			if reportLine.FindString(c.Stdout.String()) == "" {
				t.Errorf("expected a report, found %q", &c.Stdout)
			}
			// The client disconnects between two pings.
			s.Succeeds()
		})
		t.Run("server"+flags, func(t *testing.T) {
			s, c := startPair(t, flags, "-v "+flags)
			c.Prints("rdma-ping-5:")
			s.Cmd.Process.Signal(syscall.SIGTERM)
			s.Fails(cli.ExitTerminated, "terminated")
			c.Fails(cli.ExitPeer, "disconnected by")
			clitest.CheckFree(t, s.Cmd.Args[4], clitest.FreePort(t))
		})
		t.Run("waiting server"+flags, func(t *testing.T) {
			at := clitest.ServerAddress(t)
			s := clitest.Start(t, append([]string{"rping", "-s", "-a", at}, strings.Fields(flags)...)...)
			s.Prints("waiting")
			s.Cmd.Process.Signal(os.Interrupt)
			s.Fails(cli.ExitInterrupted, "interrupted")
			clitest.CheckFree(t, at, clitest.FreePort(t))
		})
	}
}

func TestRpingCaptureHoldsConnectionAndPings(t *testing.T) {
	dir := t.TempDir()
	server, client := filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")
	at := clitest.ServerAddress(t)
	s := clitest.Start(t, "rping", "-s", "-a", at, "--pcap", server)
	s.Prints("waiting")
	clitest.Run(t, "rping", "-c", "-a", at, "-C", "3", "--pcap", client)
	s.Succeeds()
	for _, file := range []string{server, client} {
		out := clitest.Run(t, "capture", "--strict", file)
		if n := clitest.Packets(out, "RC RDMA READ Request"); n != 3 || !strings.Contains(out, "0 faults") {
			t.Errorf("%s: expected 3 READs and no fault, found\n%s", file, out)
		}
		// At least REQ, REP, RTU and DREQ.
		if n := strings.Count(out, "QP 0x000001 PSN"); n < 4 {
			t.Errorf("%s: expected the messages of the connection manager, found %d in\n%s", file, n, out)
		}
	}
}

// A server that meets another program says what it expected.
func TestRpingServerRejectsOtherPrograms(t *testing.T) {
	for _, c := range []struct {
		name  string
		says  []byte
		words []string
	}{
		{"says nothing", nil, nil},
		{"short message", []byte("hello"), []string{"message of 5 bytes", "expected the 16"}},
		{"no such memory", advertisement(64), []string{"NAK_REMOTE_ACCESS"}},
		{"too long", advertisement(1 << 30), []string{"1073741824 bytes", "takes 65535"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := clitest.ServerAddress(t)
			s := clitest.Start(t, "rping", "-s", "-a", at)
			s.Prints("waiting")
			conn, err := rdmacm.Dial(t.Context(), at+":7174", rdmacm.Dialer{QP: verbs.QPConfig{MaxInline: 64}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if len(c.says) == 0 {
				conn.Disconnect()
				s.Succeeds()
				return
			}
			if err := conn.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, Inline: c.says}); err != nil {
				t.Fatal(err)
			}
			if s.ExitCode() == cli.ExitOK {
				t.Error("expected a failure")
			}
			for _, w := range c.words {
				if !strings.Contains(s.Stderr.String(), w) {
					t.Errorf("expected an error about %q, found %q", w, &s.Stderr)
				}
			}
		})
	}
}

func advertisement(n uint32) []byte {
	b := make([]byte, verbs.RemoteMemoryLen)
	_, _ = (message{Addr: 0x1000, RKey: 0xdead, Length: n}).AppendBinary(b[:0])
	return b
}

func TestRpingWrongArguments(t *testing.T) {
	for args, word := range map[string]string{
		"":                           "-s (server) and -c (client)",
		"-s -c":                      "-s (server) and -c (client)",
		"-c":                         "-a",
		"-s -I 127.0.0.1":            "-I",
		"-c -a x -P":                 "-P",
		"-s -C -1":                   "-C",
		"-s -S 22":                   "23 to 65535",
		"-s -S 65536":                "23 to 65535",
		"-s -p 0":                    "-p",
		"-s --timeout 0s":            "positive",
		"-s extra":                   "extra",
		"-s --pcap x":                "-a ADDR",
		"-s -a 0.0.0.0 --pcap x":     "-a ADDR",
		"-c -a localhost -p 7654321": "-p",
	} {
		clitest.Start(t, append([]string{"rping"}, strings.Fields(args)...)...).Fails(cli.ExitUsage, word)
	}
	clitest.Start(t, "rping", "-s", "-a", "192.0.2.254").Fails(cli.ExitFailed, "192.0.2.254")
	clitest.Start(t, "rping", "-c", "-a", "127.0.0.1", "-I", "nosuch0").Fails(cli.ExitFailed, "nosuch0")
}

func TestFillPingAsRpingDoes(t *testing.T) {
	b := make([]byte, 90)
	fillPing(b, 12)
	const want = "rdma-ping-12: MNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]\x00"
	if string(b) != want {
		t.Errorf("expected %q, found %q", want, b)
	}
}

// With --json standard output holds the result and nothing else.
func TestRpingResultAsJSON(t *testing.T) {
	server, client := startPair(t, "-V", "-C 3 -V --json")
	var r record
	if code := client.ExitCode(); code != cli.ExitOK || json.Unmarshal([]byte(client.Stdout.String()), &r) != nil {
		t.Fatalf("code %d: %s%s", code, &client.Stdout, &client.Stderr)
	}
	server.Succeeds()
	if r.Pings != 3 || r.Bytes != defaultSize || !r.Validated || r.Seconds <= 0 || r.Usec <= 0 {
		t.Errorf("found %+v", r)
	}
}
