package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestCommandsWithTLS(t *testing.T) {
	for _, protocol := range []string{cli.ProtocolIWARP, cli.ProtocolRoCE} {
		t.Run(protocol, func(t *testing.T) { commandsWithTLS(t, protocol) })
	}
}

func commandsWithTLS(t *testing.T, protocol string) {
	psk, at := clitest.SecretFile(t, "a secret that is not random"), clitest.LoopbackDevice(t)
	t.Run("demo", func(t *testing.T) {
		var r struct{ Operations []struct{} }
		if err := json.Unmarshal([]byte(clitest.Run(t, "demo", "--json", "--size", "1M", "--protocol", protocol, "--psk-file", psk)), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Operations) != 6 {
			t.Errorf("unexpected report %+v", r)
		}
	})
	t.Run("perf", func(t *testing.T) {
		port := clitest.FreePort(t)
		server := clitest.Start(t, "perf", "send", "bw", "-p", port, "--psk-file", psk)
		server.Prints("waiting")
		clitest.Run(t, "perf", "send", "bw", "-n", "200", "-p", port, "--protocol", protocol, "--psk-file", psk, "127.0.0.1")
		server.Succeeds()
	})
	t.Run("rcopy", func(t *testing.T) {
		dir := t.TempDir()
		server := clitest.Start(t, "rcopy", "--once", "--dir", dir, "-a", at, "--protocol", protocol, "--psk-file", psk)
		server.Prints("waiting")
		clitest.Run(t, "rcopy", "--protocol", protocol, "--psk-file", psk, "root.go", at+":copy")
		server.Succeeds()
		want, _ := os.ReadFile("root.go")
		if got, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || string(got) != string(want) {
			t.Errorf("another file arrived: %v", err)
		}
	})
	t.Run("perf with another secret", func(t *testing.T) {
		other := clitest.SecretFile(t, "quite another secret")
		// The server names what the client reports, and the refused handshake, unless the
		// client's report ends it before it has seen that.
		const attempts = 10
		for attempt := 1; ; attempt++ {
			port := clitest.FreePort(t)
			server := clitest.Start(t, "perf", "send", "bw", "-p", port, "--psk-file", psk)
			server.Prints("waiting")
			clitest.Start(t, "perf", "send", "bw", "-p", port, "--protocol", protocol, "--psk-file", other, "127.0.0.1").Fails(cli.ExitFailed, "not trusted", "TLS_TRUST")
			code, out := server.ExitCode(), server.Stderr.String()
			if code != cli.ExitFailed || !strings.Contains(out, "TLS_TRUST") {
				t.Fatalf("the server: code %d: %s", code, out)
			}
			if strings.Contains(out, "TLS_HANDSHAKE") {
				break
			}
			if attempt == attempts {
				t.Fatalf("the server did not name the refused handshake in %d attempts: %s", attempts, out)
			}
		}
	})
	t.Run("refusals", func(t *testing.T) {
		server := clitest.Start(t, "rping", "-s", "-a", at, "--protocol", protocol, "--psk-file", psk)
		server.Prints("waiting")
		other := clitest.SecretFile(t, "quite another secret")
		for _, c := range []struct {
			args, says string
			code       int
		}{
			{"--psk-file " + other, "not trusted (see: softrdma explain TLS_TRUST)", cli.ExitFailed},
			{"", map[string]string{cli.ProtocolIWARP: "speaks TLS", cli.ProtocolRoCE: "no answer from"}[protocol],
				map[string]int{cli.ProtocolIWARP: cli.ExitFailed, cli.ProtocolRoCE: cli.ExitPeer}[protocol]},
		} {
			args := append(strings.Fields("rping -c -a "+at+" --protocol "+protocol+" -C 1"), strings.Fields(c.args)...)
			clitest.Start(t, args...).Fails(c.code, c.says)
		}
		clitest.Run(t, "rping", "-c", "-a", at, "--protocol", protocol, "--psk-file", psk, "-C", "1")
		if code := server.ExitCode(); code != cli.ExitOK {
			t.Errorf("the server: code %d: %s", code, &server.Stderr)
		}
		for _, name := range []string{"TLS_HANDSHAKE", "TLS_PLAIN"} {
			if name == "TLS_PLAIN" && protocol == cli.ProtocolRoCE {
				continue // a client in the clear does not call
			}
			if out := server.Stderr.String(); !regexp.MustCompile(`(?m)^softrdma: refused 127\.\S+:\d+: ` + name).MatchString(out) {
				t.Errorf("expected the server to name a refused peer and %s, found %q", name, out)
			}
		}
	})
}

func TestTLSFlagsRefused(t *testing.T) {
	psk, short := clitest.SecretFile(t, "a secret that is not random"), clitest.SecretFile(t, "short")
	for args, words := range map[string][]string{
		"rping -s --protocol roce1 --psk-file " + psk:              {"--psk-file", "iwarp"},
		"cat -l 7000 --protocol iwarp --tls-cert x":                {"--tls-key", "--tls-ca"},
		"devices --psk-file " + psk:                                {"unknown flag"},
		"demo --protocol roce1 --psk-file " + psk:                  {"--psk-file", "iwarp"},
		"demo --markers":                                           {"--markers", "--protocol iwarp"},
		"cat -l 7000 --no-crc":                                     {"--no-crc", "--protocol iwarp"},
		"demo --tcp-congestion bbr":                                {"--tcp-congestion applies", "--protocol iwarp"},
		"explain --markers":                                        {"unknown flag"},
		"devices lo":                                               {"every device", "lo"},
		"perf write bw -m 1024 --protocol iwarp 127.0.0.1":         {"-m", "TCP"},
		"rping -s --protocol iwarp --tls-cert x --psk-file " + psk: {"--psk-file", "--tls-cert"},
		"rping -s --protocol iwarp --psk-file=":                    {"--psk-file", "an empty one"},
		"rping -s --psk-file=":                                     {"--psk-file"},
		"rcopy --protocol iwarp --tls-cert= --tls-key= --tls-ca=":  {"--tls-cert", "an empty one"},
		"daemon -d iwarp:127.0.0.1 --psk-file=":                    {"--psk-file", "an empty one"},
		"demo --protocol iwarp --psk-file=":                        {"--psk-file", "an empty one"},
		"perf write bw --psk-file=":                                {"--psk-file", "an empty one"},
		"perf write bw --tls-cert x":                               {"--tls-key", "--tls-ca"},
	} {
		clitest.Start(t, strings.Fields(args)...).Fails(cli.ExitUsage, words...)
	}
	clitest.Start(t, "rping", "-s", "--protocol", "iwarp", "--tcp-congestion", "none.such").Fails(cli.ExitFailed, "none.such", "reno")
	for args, words := range map[string][]string{
		"rping -s --protocol iwarp --psk-file " + short:                  {"16"},
		"rping -s --protocol iwarp --psk-file missing":                   {"missing"},
		"rping -s --protocol iwarp --tls-cert x --tls-key x --tls-ca x ": {"--tls-cert"},
		"perf write bw --psk-file missing":                               {"missing"}, // before a client comes
	} {
		clitest.Start(t, strings.Fields(args)...).Fails(cli.ExitFailed, words...)
	}
}
