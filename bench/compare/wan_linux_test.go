package compare

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Paths of the internet, in network namespaces: see testdata/wan.sh. It takes a minute, so it runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestPathsOfTheInternet ./compare
func TestPathsOfTheInternet(t *testing.T) {
	program := wanProgram(t)
	psk := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(psk, []byte(strings.Repeat("secret of a test ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		want []string
	}{
		{"narrow-4", []string{"write ok", "read ok", "send ok"}},
		{"narrow-6", []string{"write ok", "read ok", "send ok"}},
		{"nat", []string{"iWARP with TLS ok", "no answer from 10.9.2.1:7175"}},
		{"nat-psp", []string{"first client ok", "second client ok", "write ok", "read ok", "send ok", "rebinding ok"}},
		{"hole-6", []string{"PATH_NARROW: ", "largest that passes 1024"}},
		{"blocked", []string{"or a firewall rejects UDP port 4791", "a firewall rejects packets to 10.9.2.1:7174"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, "unshare", "-n", "-m", "-p", "-f", "--mount-proc", "bash", "testdata/wan.sh", program, c.what, psk).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
			for _, s := range c.want {
				if !strings.Contains(string(out), s) {
					t.Errorf("expected %q", s)
				}
			}
		})
	}
}

// wanProgram returns the program to test over emulated long paths, and skips the test if there is none.
func wanProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("SOFTRDMA_PROGRAM")
	if program == "" {
		t.Skip("SOFTRDMA_PROGRAM is not set: the path of the softrdma program to measure")
	}
	asRoot(t)
	return program
}
