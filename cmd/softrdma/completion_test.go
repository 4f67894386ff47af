package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestCompletionOffersNames(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"explain", "M"}, []string{"MAD_LENGTH\treason", "MPA_CRC\treason", "MEMORY_UNMAPPED"}, "PACKET_ICRC"},
		{[]string{"explain", "mpa_c"}, []string{"mpa_crc\treason"}, "MPA_CRC"},
		{[]string{"explain", "IBV_WC_RETRY"}, []string{"IBV_WC_RETRY_EXC_ERR\tcompletion status"}, "IBV_WC_SUCCESS"},
		{[]string{"pingpong", "-d", ""}, []string{"lo\t", "127.0.0.1\ton lo"}, "iwarp:"},
		{[]string{"perf", "write", "bw", "--device", "iwarp:"}, []string{"iwarp:lo\t", "iwarp:127.0.0.1\ton lo"}, "\nlo\t"},
		{[]string{"rping", "-I", ""}, []string{"127.0.0.1\ton lo"}, "go.mod"},
		{[]string{"daemon", "-d", ""}, []string{"127.0.0.1\ton lo"}, "main.go"},
		{[]string{"pingpong", "-t", ""}, []string{"rc", "uc", "ud", "srq"}, "main.go"},
		{[]string{"cat", "--protocol", ""}, []string{"roce", "iwarp"}, "main.go"},
		{[]string{"env", "--format", ""}, []string{"sh", "fish", "github", "json"}, "main.go"},
		{[]string{"exec", "--engine", ""}, []string{"auto", "program", "daemon"}, "main.go"},
		{[]string{"perf", ""}, []string{"write", "read", "send", "atomic"}, "bw"},
		{[]string{"perf", "write", ""}, []string{"bw", "lat"}, "atomic"},
		{[]string{"perf", "write", "bw", "--congestion", ""}, []string{"dcqcn", "delay"}, "main.go"},
		{[]string{"devices", ""}, []string{":4\n"}, "main.go"}, // no file names
		{[]string{"d"}, []string{"daemon", "demo", "devices"}, "pingpong"},
	} {
		var b strings.Builder
		root := newRootCommand()
		root.SetOut(&b)
		root.SetErr(io.Discard) // cobra describes the directive there
		root.SetArgs(append([]string{"__complete"}, c.args...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		out := b.String()
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%q: expected %q in\n%s", c.args, w, out)
			}
		}
		if strings.Contains(out, c.not) {
			t.Errorf("%q: offers %q:\n%s", c.args, c.not, out)
		}
	}
}

// Only commands that open a device of the user's choice have the flags of captures, TLS
// and iWARP.
func TestFlagsExistOnlyWhereTheyApply(t *testing.T) {
	opens := map[string]bool{
		"softrdma pingpong": true, "softrdma perf": true, "softrdma rping": true, "softrdma rcopy": true, "softrdma cat": true,
		"softrdma exec": true, "softrdma env": true, "softrdma daemon": true, "softrdma demo": true, "softrdma demo peer": true,
		"softrdma nvme serve": true, "softrdma nvme discover": true, "softrdma nvme list": true, "softrdma nvme read": true,
		"softrdma nvme write": true, "softrdma nvme bench": true, "softrdma nvme serve-nbd": true, "softrdma serve-nfs": true, "softrdma serve-9p": true,
	}
	ofTLS := []string{cli.SecretFlag, cli.CertificateFlag, "tls-key", "tls-ca"}
	for _, cmd := range allCommands(newRootCommand()) {
		for _, flag := range append([]string{cli.PcapFlag, cli.NoCRCFlag, cli.MarkersFlag, "tcp-congestion"}, ofTLS...) {
			if flag == cli.PcapFlag && cmd.Name() == "peer" {
				continue // the first process captures
			}
			ranks := cmd.CommandPath() == "softrdma run" && slices.Contains(ofTLS, flag) // its programs open the devices
			if has := cmd.Flag(flag) != nil; has != (opens[cmd.CommandPath()] || ranks) {
				t.Errorf("%s has --%s: %v, expected %v", cmd.CommandPath(), flag, has, !has)
			}
		}
	}
	clitest.Start(t, "explain", "--pcap", "x", "28").Fails(cli.ExitUsage, "unknown flag: --pcap")
}
