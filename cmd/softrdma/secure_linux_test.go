package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// secretFile writes a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCommandsWithTLS(t *testing.T) {
	psk, at := secretFile(t, "a secret that is not random"), loopbackDevice(t)
	t.Run("demo", func(t *testing.T) {
		var r demoReport
		if err := json.Unmarshal([]byte(run(t, "demo", "--json", "--size", "1M", "--protocol", "iwarp", "--psk-file", psk)), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Operations) != len(demoOperations) {
			t.Errorf("unexpected report %+v", r)
		}
	})
	t.Run("perf", func(t *testing.T) {
		port := freePort(t)
		server := start(t, "perf", "send", "bw", "-p", port, "--psk-file", psk)
		server.prints("waiting")
		run(t, "perf", "send", "bw", "-n", "200", "-p", port, "--protocol", "iwarp", "--psk-file", psk, "127.0.0.1")
		server.succeeds()
	})
	t.Run("rcopy", func(t *testing.T) {
		dir := t.TempDir()
		server := start(t, "rcopy", "--once", "--dir", dir, "-a", at, "--protocol", "iwarp", "--psk-file", psk)
		server.prints("waiting")
		run(t, "rcopy", "--protocol", "iwarp", "--psk-file", psk, "rcopy.go", at+":copy")
		server.succeeds()
		want, _ := os.ReadFile("rcopy.go")
		if got, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || string(got) != string(want) {
			t.Errorf("another file arrived: %v", err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		server := start(t, "rping", "-s", "-a", at, "--protocol", "iwarp", "--psk-file", psk)
		server.prints("waiting")
		other := secretFile(t, "quite another secret")
		for _, c := range []struct{ args, says string }{
			{"--psk-file " + other, "not trusted"},
			{"", "speaks TLS"},
		} {
			args := append(strings.Fields("rping -c -a "+at+" --protocol iwarp -C 1"), strings.Fields(c.args)...)
			start(t, args...).fails(exitFailed, c.says)
		}
		run(t, "rping", "-c", "-a", at, "--protocol", "iwarp", "--psk-file", psk, "-C", "1")
		if code := server.code(); code != exitOK {
			t.Errorf("the server: code %d: %s", code, &server.stderr)
		}
		for _, name := range []string{"TLS_HANDSHAKE", "TLS_PLAIN"} {
			if told := server.stderr.String(); !regexp.MustCompile(`(?m)^softrdma: refused 127\.\S+:\d+: ` + name).MatchString(told) {
				t.Errorf("expected the server to tell of a peer and %s, found %q", name, told)
			}
		}
	})
}

func TestTLSFlagsRefused(t *testing.T) {
	psk, short := secretFile(t, "a secret that is not random"), secretFile(t, "short")
	for args, words := range map[string][]string{
		"rping -s --psk-file " + psk:                               {"--psk-file", "iwarp"},
		"cat -l 7000 --protocol iwarp --tls-cert x":                {"--tls-key", "--tls-ca"},
		"devices --psk-file " + psk:                                {"unknown flag"},
		"demo --psk-file " + psk:                                   {"--psk-file", "--protocol iwarp"},
		"demo --markers":                                           {"--markers", "--protocol iwarp"},
		"cat -l 7000 --no-crc":                                     {"--no-crc", "--protocol iwarp"},
		"explain --markers":                                        {"unknown flag"},
		"devices lo":                                               {"every device", "lo"},
		"perf write bw -m 1024 --protocol iwarp 127.0.0.1":         {"-m", "TCP"},
		"rping -s --protocol iwarp --tls-cert x --psk-file " + psk: {"--psk-file", "--tls-cert"},
	} {
		start(t, strings.Fields(args)...).fails(exitUsage, words...)
	}
	for args, words := range map[string][]string{
		"rping -s --protocol iwarp --psk-file " + short:                  {"16"},
		"rping -s --protocol iwarp --psk-file missing":                   {"missing"},
		"rping -s --protocol iwarp --tls-cert x --tls-key x --tls-ca x ": {"--tls-cert"},
	} {
		start(t, strings.Fields(args)...).fails(exitFailed, words...)
	}
}
