package cli

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"
)

func TestMetricsAreOnLoopbackUnlessAnAddressIsGiven(t *testing.T) {
	for _, x := range []struct{ given, network, at string }{
		{"9435", "tcp", "127.0.0.1:9435"},
		{":9435", "tcp", "127.0.0.1:9435"},
		{"0.0.0.0:9435", "tcp", "0.0.0.0:9435"},
		{"[::1]:9435", "tcp", "[::1]:9435"},
		{"./metrics", "unix", "./metrics"},
	} {
		if network, at := metricsAddress(x.given); network != x.network || at != x.at {
			t.Errorf("%s: found %s %s, expected %s %s", x.given, network, at, x.network, x.at)
		}
	}
}

func TestMetricsReplaceADeadSocketButNoOther(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: sockets that are files are of Unix")
	}
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := serveMetrics(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serveMetrics(path); err == nil {
		t.Error("a second process listens on a socket that is in use")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if _, err := serveMetrics("127.0.0.1:bad/"); err == nil {
		t.Error("expected an error for a socket in a directory that does not exist")
	}
	if _, err := serveMetrics("nothing"); err == nil {
		t.Error("expected an error for a port that is no number")
	}
}
