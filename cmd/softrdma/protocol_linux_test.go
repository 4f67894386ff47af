package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// Unsupported features of iWARP are refused, and so is a device name that contradicts
// --protocol.
func TestIWARPRefusals(t *testing.T) {
	for args, words := range map[string][]string{
		"pingpong -t ud --protocol iwarp":               {"reliable connections only", "unsupported"},
		"pingpong -t uc -d iwarp:127.0.0.1":             {"reliable connections only", "unsupported"},
		"pingpong --protocol iwarp":                     {"-R", "unsupported"},
		"rping -s -q --protocol iwarp":                  {"-q", "unsupported"},
		"rping -s --protocol roce -a iwarp:lo":          {"--protocol roce", "iwarp:lo"},
		"demo --addr 127.0.0.1,iwarp:127.0.0.2":         {"--addr", "one protocol"},
		"demo --protocol tcp":                           {"--protocol", "roce, roce1 or iwarp"},
		"exec -d iwarp:lo --protocol roce -- true":      {"--protocol roce", "iwarp:lo"},
		"exec --socket x --protocol iwarp -- true":      {"--socket", "--protocol"},
		"daemon --socket x -d iwarp:lo --protocol roce": {"--protocol roce", "iwarp:lo"},
		"cat --protocol roce -I iwarp:lo HOST 7":        {"--protocol roce"},
		"perf write bw -d iwarp:lo --protocol roce":     {"--protocol roce"},
		"rcopy --protocol roce -a iwarp:127.0.0.1":      {"--protocol roce"},
		"pingpong -R -t srq --protocol iwarp":           {"-R needs -t rc"},
		"cat -l iwarp:127.0.0.1:7000 --protocol odd":    {"roce, roce1 or iwarp"},
	} {
		clitest.Start(t, strings.Fields(args)...).Fails(cli.ExitUsage, words...)
	}
	file := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "rping", "-s", "-a", "iwarp:127.0.0.1", "--pcap", file).Fails(cli.ExitFailed, "tcpdump")
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("a refused capture left %q of the file, %v", b, err)
	}
	at := clitest.LoopbackDevice(t)
	clitest.Start(t, "rping", "-c", "-a", at, "--protocol", "iwarp").Fails(cli.ExitPeer, `"softrdma rping -s --protocol iwarp"`)
}

func TestPerfOfTwoProtocolsIsRefused(t *testing.T) {
	at, port := clitest.LoopbackDevice(t), clitest.FreePort(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", "iwarp:"+at)
	server.Prints("waiting for a client")
	clitest.Start(t, "perf", "write", "bw", "-p", port, "127.0.0.1").Fails(cli.ExitPeer, "iwarp:"+at, "expected the same --protocol")
}

func TestDevicesIWARP(t *testing.T) {
	t.Setenv("SOFTRDMA_HOST_DIR", t.TempDir()) // where no other devices are published
	if out := clitest.Run(t, "devices", "-v", "--protocol", "iwarp"); !strings.Contains(out, "iWARP over TCP") || strings.Contains(out, "RoCE") {
		t.Errorf("unexpected %s", out)
	}
}
