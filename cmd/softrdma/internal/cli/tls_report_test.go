package cli

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// Many refused peers cause few lines.
func TestReportRefusedLimitsLines(t *testing.T) {
	var out strings.Builder
	tell := reportRefused(&out)
	for range throttleLines {
		tell(netip.MustParseAddrPort("192.0.2.1:7"), errors.New("why\nnot"))
	}
	if want := strings.Repeat("softrdma: refused 192.0.2.1:7: why; not\n", throttleLines); out.String() != want {
		t.Errorf("expected %d lines, found %q", throttleLines, &out)
	}
}

func TestReadableSecretFileWarns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: windows has no modes of files")
	}
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte("a secret that is not random"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o620: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		at := clitest.LoopbackDevice(t)
		p := clitest.Start(t, "rping", "-c", "-a", at, "--protocol", "iwarp", "--psk-file", file)
		if p.ExitCode() == ExitOK {
			t.Error("there is no server")
		}
		if n := strings.Count(p.Stderr.String(), "warning: --psk-file"); n > 1 || n == 1 != warns {
			t.Errorf("mode %#o: found %q", mode, &p.Stderr)
		}
	}
}
