package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two processes' iWARP devices have one address. What WRITE moved is complete
// when the client says so: small files are over before the other end has them.
func TestDemoIWARP(t *testing.T) {
	for _, args := range []string{"--protocol iwarp", "--addr iwarp:127.0.0.1", "--protocol iwarp --addr 127.0.0.1,127.0.0.2"} {
		var r demoReport
		if err := json.Unmarshal([]byte(run(t, append([]string{"demo", "--json", "--size", "1M"}, strings.Fields(args)...)...)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Protocol != "iWARP" || !strings.HasPrefix(r.Client, "iwarp:127.") || !strings.HasPrefix(r.Server, "iwarp:127.") || len(r.Operations) != len(demoOperations) {
			t.Errorf("%s: unexpected report %+v", args, r)
		}
	}
}

func TestManagedCommandsIWARP(t *testing.T) {
	at := loopbackDevice(t)
	t.Run("rping", func(t *testing.T) {
		server := start(t, "rping", "-s", "-a", at, "--protocol", "iwarp", "-V")
		server.prints("waiting")
		if out := run(t, "rping", "-c", "-a", at, "-I", "iwarp:127.0.0.1", "-C", "5", "-V"); !strings.Contains(out, "5 pings of 64 bytes") {
			t.Errorf("unexpected %s", out)
		}
		server.succeeds()
	})
	t.Run("pingpong", func(t *testing.T) {
		server := start(t, "pingpong", "-R", "-d", "iwarp:"+at, "-c")
		server.prints("waiting")
		if out := run(t, "pingpong", "-R", "--protocol", "iwarp", "-c", at); !strings.Contains(out, "1000 iters") || strings.Contains(out, "LID") {
			t.Errorf("unexpected %s", out)
		}
		server.succeeds()
	})
	t.Run("rcopy", func(t *testing.T) {
		dir := t.TempDir()
		server := start(t, "rcopy", "--once", "--dir", dir, "-a", "iwarp:"+at)
		server.prints("waiting")
		run(t, "rcopy", "--protocol", "iwarp", "rcopy.go", at+":copy")
		server.succeeds()
		want, _ := os.ReadFile("rcopy.go")
		if got, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || string(got) != string(want) {
			t.Errorf("another file arrived: %v", err)
		}
	})
	t.Run("cat", func(t *testing.T) {
		server := catWaits(t, at, strings.NewReader("from the server"), "--protocol", "iwarp")
		client := prepare(t, "cat", "--protocol", "iwarp", at, "7000")
		client.cmd.Stdin = strings.NewReader("from the client")
		client.start()
		if got := client.succeeds() + "|" + string(server.ends()); got != "from the server|from the client" {
			t.Errorf("found %q", got)
		}
	})
}

// What iWARP has not is refused, and so is a device of the other protocol than
// the flag says.
func TestIWARPRefusals(t *testing.T) {
	for args, words := range map[string][]string{
		"pingpong -t ud --protocol iwarp":               {"reliable connections alone", "unsupported"},
		"pingpong -t uc -d iwarp:127.0.0.1":             {"reliable connections alone", "unsupported"},
		"pingpong --protocol iwarp":                     {"-R", "unsupported"},
		"rping -s -q --protocol iwarp":                  {"-q", "unsupported"},
		"rping -s --protocol roce -a iwarp:lo":          {"--protocol roce", "iwarp:lo"},
		"demo --addr 127.0.0.1,iwarp:127.0.0.2":         {"--addr", "one protocol"},
		"demo --protocol tcp":                           {"--protocol", "roce or iwarp"},
		"exec -d iwarp:lo --protocol roce -- true":      {"--protocol roce", "iwarp:lo"},
		"exec --socket x --protocol iwarp -- true":      {"--socket", "--protocol"},
		"daemon --socket x -d iwarp:lo --protocol roce": {"--protocol roce", "iwarp:lo"},
		"cat --protocol roce -I iwarp:lo HOST 7":        {"--protocol roce"},
		"perf write bw -d iwarp:lo --protocol roce":     {"--protocol roce"},
		"rcopy --protocol roce -a iwarp:127.0.0.1":      {"--protocol roce"},
		"pingpong -R -t srq --protocol iwarp":           {"-R is for -t rc"},
		"cat -l iwarp:127.0.0.1:7000 --protocol odd":    {"roce or iwarp"},
	} {
		start(t, strings.Fields(args)...).fails(exitUsage, words...)
	}
	file := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "rping", "-s", "-a", "iwarp:127.0.0.1", "--pcap", file).fails(exitFailed, "tcpdump", "unsupported")
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("a refused capture left %q of the file, %v", b, err)
	}
	at := loopbackDevice(t)
	start(t, "rping", "-c", "-a", at, "--protocol", "iwarp").fails(exitPeer, `"softrdma rping -s --protocol iwarp"`)
}

func TestPerfOfTwoProtocolsIsRefused(t *testing.T) {
	at, port := loopbackDevice(t), freePort(t)
	server := start(t, "perf", "write", "bw", "-p", port, "-d", "iwarp:"+at)
	server.prints("waiting for a client")
	start(t, "perf", "write", "bw", "-p", port, "127.0.0.1").fails(exitPeer, "iwarp:"+at, "expected the same --protocol")
}

func TestDevicesIWARP(t *testing.T) {
	if out := run(t, "devices", "-v", "--protocol", "iwarp"); !strings.Contains(out, "iWARP over TCP") || strings.Contains(out, "RoCE") {
		t.Errorf("unexpected %s", out)
	}
}
