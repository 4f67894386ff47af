package main

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A flood of refused peers gives few lines, and none of them is forgotten.
func TestRefusalsAreToldByRate(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	l := refusalLog{now: func() time.Time { return now }}
	tell := l.to(&out)
	peer := netip.MustParseAddrPort("192.0.2.1:7")
	for range 1000 {
		tell(peer, errors.New("why\nnot"))
	}
	if n := strings.Count(out.String(), "\n"); n != refusalBurst || !strings.HasPrefix(out.String(), "softrdma: refused 192.0.2.1:7: why; not\n") {
		t.Errorf("expected %d lines, found %q", refusalBurst, &out)
	}
	out.Reset()
	now = now.Add(refusalInterval)
	tell(peer, errors.New("again"))
	tell(peer, errors.New("again"))
	if want := "softrdma: refused 192.0.2.1:7: again (and 995 others since the last line)\n"; out.String() != want {
		t.Errorf("expected %q, found %q", want, &out)
	}
	out.Reset()
	now = now.Add(time.Hour)
	for range 1000 {
		tell(peer, errors.New("again"))
	}
	if n := strings.Count(out.String(), "\n"); n != refusalBurst {
		t.Errorf("expected %d lines after a while, found %d", refusalBurst, n)
	}
}

func TestSecretThatOthersCanReadIsWarnedOf(t *testing.T) {
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
		at := loopbackDevice(t)
		p := start(t, "rping", "-c", "-a", at, "--protocol", "iwarp", "--psk-file", file)
		if p.code() == exitOK {
			t.Error("there is no server")
		}
		if n := strings.Count(p.stderr.String(), "warning: --psk-file"); n > 1 || n == 1 != warns {
			t.Errorf("mode %#o: found %q", mode, &p.stderr)
		}
	}
}
