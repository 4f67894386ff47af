package main

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

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// serverAddress gives an address of this machine that a server on the
// connection manager can have to itself. Its UDP port is 4791, where clients
// look for it.
func serverAddress(t *testing.T) string {
	t.Helper()
	host, _, found := strings.Cut(loopbackDevice(t), ":")
	if found {
		return "127.0.0.1"
	}
	return host
}

// rpingPair starts a server with flags and, when it waits, a client with others.
func rpingPair(t *testing.T, server, client string) (s, c *process) {
	t.Helper()
	at := serverAddress(t)
	s = start(t, append([]string{"rping", "-s", "-a", at}, strings.Fields(server)...)...)
	s.prints("waiting for a client on " + at + " port 7174")
	c = start(t, append([]string{"rping", "-c", "-a", at, "-I", loopbackDevice(t)}, strings.Fields(client)...)...)
	return s, c
}

var rpingReport = regexp.MustCompile(`(?m)^(\d+) pings? of (\d+) bytes in \d+\.\d{3} seconds, \d+\.\d\d usec/ping(, data validated)?$`)

func TestRpingEachModeValidates(t *testing.T) {
	for _, server := range []string{"-V", "-V -q"} {
		for _, client := range []string{"-S 64", "-S 23", "-S 65535", "-S 4097 -q"} {
			t.Run(server+client, func(t *testing.T) {
				s, c := rpingPair(t, server, "-V -C 20 "+client)
				m := rpingReport.FindStringSubmatch(c.succeeds())
				if size := strings.Fields(client)[1]; m == nil || m[1] != "20" || m[2] != size || m[3] == "" {
					t.Errorf("expected 20 validated pings of %s bytes, found %q", size, &c.stdout)
				}
				if out := s.succeeds(); !strings.Contains(out, ": 20 pings, data validated\n") {
					t.Errorf("expected 20 validated pings, found %q", out)
				}
			})
		}
	}
}

// What rping -v prints, ends of the alphabet included.
func TestRpingPrintsPings(t *testing.T) {
	s, c := rpingPair(t, "-v", "-v -C 59 -S 30")
	client, server := c.succeeds(), s.succeeds()
	for n, text := range map[int]string{0: "ABCDEFGHIJKLMNOP", 1: "BCDEFGHIJKLMNOPQ", 57: "zABCDEFGHIJKLMN", 58: "ABCDEFGHIJKLMNO"} {
		for side, out := range map[string]string{"ping data": client, "server ping data": server} {
			if want := fmt.Sprintf("%s: rdma-ping-%d: %s\n", side, n, text); !strings.Contains(out, want) {
				t.Errorf("expected %q, found\n%s", want, out)
			}
		}
	}
}

func TestRpingPersistentServerTakesManyClients(t *testing.T) {
	at := serverAddress(t)
	for _, flags := range []string{"-P", "-P -q"} {
		s := start(t, append([]string{"rping", "-s", "-V", "-a", at}, strings.Fields(flags)...)...)
		s.prints("waiting")
		var clients []*process
		for range 4 {
			clients = append(clients, start(t, "rping", "-c", "-V", "-C", "50", "-a", at, "-I", loopbackDevice(t)))
		}
		for _, c := range clients {
			c.succeeds()
		}
		for end := time.Now().Add(patience); strings.Count(s.stdout.String(), ": 50 pings, data validated") < len(clients) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if n := strings.Count(s.stdout.String(), ": 50 pings, data validated"); n != len(clients) {
			t.Errorf("%s: the server tells of %d clients, expected %d:\n%s", flags, n, len(clients), &s.stdout)
		}
		if runtime.GOOS == "windows" {
			s.cmd.Process.Kill()
			<-s.ended
			continue
		}
		s.cmd.Process.Signal(os.Interrupt)
		s.fails(exitInterrupted, "interrupted")
	}
}

func TestRpingSidesDisagree(t *testing.T) {
	s, c := rpingPair(t, "-S 100", "-S 101")
	s.fails(exitPeer, "ping 0", "ping of 101 bytes, this side takes 100", "-S")
	c.fails(exitPeer, "ping 0", "disconnected by")
}

func TestRpingNobodyThere(t *testing.T) {
	at := serverAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"-q=false", "-q"} {
		// The device is there and nobody listens: the answer comes at once.
		start(t, "rping", "-c", own, "-a", at, "--timeout", "1h", "-I", loopbackDevice(t)).fails(exitPeer, "nobody waits at "+at+":7174", `"softrdma rping -s"`, "reason 8")
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"-q=false", "-q"} {
		start(t, "rping", "-c", own, "-a", at, "--timeout", "300ms", "-I", loopbackDevice(t)).fails(exitPeer, "no answer from "+at+":7174 within 300ms", "UDP port 4791")
		start(t, "rping", "-c", own, "-a", "host.invalid").fails(exitPeer, "host.invalid")
	}
}

func TestRpingPeerGone(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			s, c := rpingPair(t, "-v --timeout 2s", "-v --timeout 2s")
			s.prints("rdma-ping-5:")
			c.prints("rdma-ping-5:")
			dies, lives := c, s
			if who == "server" {
				dies, lives = s, c
			}
			dies.cmd.Process.Kill()
			lives.fails(exitPeer, "ping ")
		})
	}
}

func TestRpingInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	for _, flags := range []string{"", "-q"} {
		t.Run("client"+flags, func(t *testing.T) {
			s, c := rpingPair(t, flags, "-v "+flags)
			c.prints("rdma-ping-5:")
			c.cmd.Process.Signal(os.Interrupt)
			c.fails(exitInterrupted, "interrupted")
			if rpingReport.FindString(c.stdout.String()) == "" {
				t.Errorf("expected a report, found %q", &c.stdout)
			}
			// The client ends between two pings, and tells the server so.
			s.succeeds()
		})
		t.Run("server"+flags, func(t *testing.T) {
			s, c := rpingPair(t, flags, "-v "+flags)
			c.prints("rdma-ping-5:")
			s.cmd.Process.Signal(syscall.SIGTERM)
			s.fails(exitInterrupted, "interrupted")
			c.fails(exitPeer, "disconnected by")
			checkFree(t, s.cmd.Args[4], freePort(t))
		})
		t.Run("waiting server"+flags, func(t *testing.T) {
			at := serverAddress(t)
			s := start(t, append([]string{"rping", "-s", "-a", at}, strings.Fields(flags)...)...)
			s.prints("waiting")
			s.cmd.Process.Signal(os.Interrupt)
			s.fails(exitInterrupted, "interrupted")
			checkFree(t, at, freePort(t))
		})
	}
}

func TestRpingCaptureHoldsConnectionAndPings(t *testing.T) {
	dir := t.TempDir()
	server, client := filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")
	at := serverAddress(t)
	s := start(t, "rping", "-s", "-a", at, "--pcap", server)
	s.prints("waiting")
	run(t, "rping", "-c", "-a", at, "-C", "3", "--pcap", client)
	s.succeeds()
	for _, file := range []string{server, client} {
		out := run(t, "capture", "--strict", file)
		if n := strings.Count(out, "RDMA READ Request"); n != 3 || !strings.Contains(out, "0 faults") {
			t.Errorf("%s: expected 3 READs and no fault, found\n%s", file, out)
		}
		// REQ, REP, RTU, DREQ at least.
		if n := strings.Count(out, "QP 0x000001 PSN"); n < 4 {
			t.Errorf("%s: expected the messages of the connection manager, found %d in\n%s", file, n, out)
		}
	}
}

// A server that meets what is no rping says what it expected.
func TestRpingStrangers(t *testing.T) {
	for _, c := range []struct {
		name  string
		says  []byte
		words []string
	}{
		{"says nothing", nil, nil},
		{"short message", []byte("hello"), []string{"message of 5 bytes", "expected the 16"}},
		{"no such memory", rpingAdvertises(64), []string{"NAK_REMOTE_ACCESS"}},
		{"too long", rpingAdvertises(1 << 30), []string{"1073741824 bytes", "takes 65535"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := serverAddress(t)
			s := start(t, "rping", "-s", "-a", at)
			s.prints("waiting")
			conn, err := rdmacm.Dial(t.Context(), at+":7174", rdmacm.Dialer{QP: verbs.QPConfig{MaxInline: 64}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if len(c.says) == 0 {
				conn.Disconnect()
				s.succeeds()
				return
			}
			if err := conn.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, Inline: c.says}); err != nil {
				t.Fatal(err)
			}
			if s.code() == exitOK {
				t.Error("expected a failure")
			}
			for _, w := range c.words {
				if !strings.Contains(s.stderr.String(), w) {
					t.Errorf("expected an error about %q, found %q", w, &s.stderr)
				}
			}
		})
	}
}

func rpingAdvertises(n uint32) []byte {
	b := make([]byte, rpingMessageLen)
	(&rpingMessage{addr: 0x1000, rkey: 0xdead, length: n}).put(b)
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
		start(t, append([]string{"rping"}, strings.Fields(args)...)...).fails(exitUsage, word)
	}
	start(t, "rping", "-s", "-a", "192.0.2.254").fails(exitFailed, "192.0.2.254")
	start(t, "rping", "-c", "-a", "127.0.0.1", "-I", "nosuch0").fails(exitFailed, "nosuch0")
}

func TestFillPingAsRpingDoes(t *testing.T) {
	b := make([]byte, 90)
	fillPing(b, 12)
	const want = "rdma-ping-12: MNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]\x00"
	if string(b) != want {
		t.Errorf("expected %q, found %q", want, b)
	}
}

// The result is all that stands on standard output.
func TestResultsAsJSON(t *testing.T) {
	server, client := rpingPair(t, "-V", "-C 3 -V --json")
	var r rpingRecord
	if code := client.code(); code != exitOK || json.Unmarshal([]byte(client.stdout.String()), &r) != nil {
		t.Fatalf("code %d: %s%s", code, &client.stdout, &client.stderr)
	}
	server.succeeds()
	if r.Pings != 3 || r.Bytes != rpingDefaultSize || !r.Validated || r.Seconds <= 0 || r.Usec <= 0 {
		t.Errorf("found %+v", r)
	}

	port := freePort(t)
	server = start(t, "pingpong", "-p", port, "-d", loopbackDevice(t), "-n", "7")
	server.prints("local address")
	client = start(t, "pingpong", "-p", port, "-d", loopbackDevice(t), "-n", "7", "--json", "127.0.0.1")
	var p pingpongRecord
	if code := client.code(); code != exitOK || json.Unmarshal([]byte(client.stdout.String()), &p) != nil {
		t.Fatalf("code %d: %s%s", code, &client.stdout, &client.stderr)
	}
	server.succeeds()
	if p.Type != "rc" || p.Iters != 7 || p.Size != 4096 || p.Bytes != 2*7*4096 || p.Seconds <= 0 || p.Usec <= 0 || p.Mbit <= 0 {
		t.Errorf("found %+v", p)
	}
}
