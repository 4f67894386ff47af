package rcopy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// An attempt is what one call of try returns, after a time.
type attempt struct {
	connected bool
	err       error
	takes     time.Duration
	from      int64
}

func TestClientContinuesAfterALostLink(t *testing.T) {
	lost := &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
	gone := &net.OpError{Op: "write", Err: syscall.ECONNRESET}
	silent := errors.New("no answer")
	refused := syscall.ECONNREFUSED
	away := make([]attempt, 6) // a minute
	for i := range away {
		away[i] = attempt{false, silent, 5 * time.Second, 0}
	}
	stuck := slices.Repeat([]attempt{{true, lost, 10 * time.Second, 7}}, 20) // connects, and no data passes
	for name, c := range map[string]struct {
		retry    time.Duration
		attempts []attempt
		want     error
		took     time.Duration
	}{
		"back after a minute":      {2 * time.Minute, append(append([]attempt{{true, lost, 0, 0}}, away...), attempt{true, nil, 0, 0}), nil, 65 * time.Second},
		"away for too long":        {30 * time.Second, append([]attempt{{true, lost, 0, 0}}, away...), lost, 40 * time.Second},
		"lost twice":               {10 * time.Second, []attempt{{true, lost, 0, 0}, {true, lost, time.Hour, 1}, {true, nil, 0, 1}}, nil, time.Hour + 10*time.Second},
		"lost after it differed":   {time.Minute, []attempt{{true, errDiffers, time.Hour, 9}, {true, lost, 0, 0}, {false, silent, 0, 0}, {true, nil, 0, 0}}, nil, time.Hour + 10*time.Second},
		"connects without success": {30 * time.Second, stuck, lost, 55 * time.Second},
		"server has ended":         {2 * time.Minute, []attempt{{true, lost, 0, 0}, {false, refused, 0, 0}}, lost, 5 * time.Second},
		"never connected":          {2 * time.Minute, []attempt{{false, silent, 0, 0}}, silent, 0},
		"peer was killed":          {2 * time.Minute, []attempt{{true, gone, 0, 0}}, gone, 0},
		"without retry":            {0, []attempt{{true, lost, 0, 0}}, lost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				r := &command{retry: c.retry}
				r.Cmd = &cobra.Command{}
				r.Cmd.SetErr(&said)
				start, i := time.Now(), 0
				err := r.persist(context.Background(), func() (bool, int64, error) {
					a := c.attempts[i]
					i++
					time.Sleep(a.takes)
					return a.connected, a.from, a.err
				})
				if took := time.Since(start); err != c.want || took != c.took {
					t.Errorf("%v after %v, expected %v after %v", err, took, c.want, c.took)
				}
				if tried := i > 1; tried != strings.Contains(said.String(), "connection lost, trying to continue") {
					t.Errorf("it said %q", &said)
				}
			})
		})
	}
}

// While the server runs, a copy continues where the connection was lost.
func TestRcopyContinuesAtTheLastByte(t *testing.T) {
	in, err := openDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	for _, c := range []struct{ has, from int64 }{{syncSize - 1, 0}, {syncSize, syncSize}, {2*syncSize + 5, 2*syncSize + 5}} {
		u, err := in.open("x", 0o600, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.file.Truncate(c.has); err != nil {
			t.Fatal(err)
		}
		u.size = c.has
		if err := u.abandon(); err != nil {
			t.Fatal(err)
		}
		if u, err = in.open("x", 0o600, 7); err != nil {
			t.Fatal(err)
		}
		if u.from != c.from {
			t.Errorf("a partial file of %d bytes: continues at %d, expected %d", c.has, u.from, c.from)
		}
		if err := errors.Join(u.file.Close(), in.remove(u.partial)); err != nil {
			t.Fatal(err)
		}
		u.release()
	}
}
