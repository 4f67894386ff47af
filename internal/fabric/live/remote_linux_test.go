package live_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/reason"
)

// What programs do on the fabric's host they do on another one.
func TestFromAnotherHost(t *testing.T) {
	for _, x := range []struct {
		name string
		test func(*testing.T, starter)
	}{
		{"PacketsGoFromProgramToProgram", packetsGoFromProgramToProgram},
		{"PacketsOfAProgramThatEndsLeave", packetsOfAProgramThatEndsLeave},
		{"AServiceLevelThatStandsStillStopsNoOther", aServiceLevelThatStandsStillStopsNoOther},
		{"ASecondProgramIsRefused", aSecondProgramIsRefused},
		{"PortsComeBackWithTheNextFabric", portsComeBackWithTheNextFabric},
		{"DirectedRoutesFromAProgram", directedRoutesFromAProgram},
		{"QueuePair1", queuePair1},
		{"CutCable", cutCable},
		{"AddressesOfPorts", addressesOfPorts},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, fabrictest.StartRemote) })
	}
}

func TestAnotherHostIsRefusedByName(t *testing.T) {
	var s dropped
	f := fabrictest.StartRemote(t, "star:2", func(c *live.Config) {
		c.Remote.Secret, c.Remote.Dropped = []byte("a secret of both hosts"), s.noteRemote
	})
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of both hosts"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := place(f).String()
	nobody := fabrictest.FreeUDP(t, 1)[0]
	for _, c := range []struct {
		address, secret string
		want            reason.Reason
		words           string
	}{
		{f.Adapters[0], "", reason.FabricRemoteSecret, "SOFTRDMA_FABRIC_SECRET"},
		{"other@" + at + "/H1", file, reason.FabricAbsent, "another fabric runs there"},
		{f.Name + "/nowhere", file, reason.FabricNode, "nowhere"},
		{f.Adapters[0] + ":3", file, reason.FabricNode, "found 3"},
		{"test@" + nobody + "/H1", file, reason.FabricRemoteSilent, "no answer"},
		{"test@127.0.0.1:0/H1", file, reason.FabricAddress, "NAME@HOST"},
	} {
		t.Setenv(attach.SecretVariable, c.secret)
		ctx, cancel := context.WithTimeout(t.Context(), timeLimit(c.want))
		p, err := attach.Open(ctx, c.address)
		cancel()
		var named *reason.Error
		if !errors.As(err, &named) || named.Detail.Reason != c.want || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, expected %v with %q", c.address, err, c.want, c.words)
		}
		if err == nil {
			_ = p.Close()
		}
	}
	if s.count(reason.FabricRemoteSecret) == 0 {
		t.Error("the wrong secret was not counted")
	}
	t.Setenv(attach.SecretVariable, file)
	f.Attach(0)
	if p, err := attach.Open(t.Context(), f.Adapters[0]); err == nil || !strings.Contains(err.Error(), "a program at 127.0.0.1:") {
		t.Errorf("a port that is taken: %v, %v", p, err)
	}
	if err := attach.Down(t.Context(), f.Name); err == nil || !strings.Contains(err.Error(), "own host") {
		t.Errorf("the end of a fabric on another host: %v", err)
	}
	if _, err := attach.Do(t.Context(), f.Name, []byte("{}")); err == nil || !strings.Contains(err.Error(), "own host") {
		t.Errorf("a command: %v", err)
	}
}

// timeLimit is how long a program waits for an answer: not long for one that does not come.
func timeLimit(want reason.Reason) time.Duration {
	if want == reason.FabricRemoteSilent {
		return 300 * time.Millisecond
	}
	return 20 * time.Second
}

// Nothing is left of programs on other hosts and of their fabric.
func TestNothingIsLeftOfAnotherHost(t *testing.T) {
	before := runtime.NumGoroutine()
	f := fabrictest.StartRemote(t, "star:2", func(*live.Config) {})
	for range 3 {
		for i := range 2 {
			if err := f.Attach(i).Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := f.Attach(0)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// A port comes back at once when its program has closed it, and stays up.
func TestPortOfAnotherHostIsFreeWhenItsProgramClosesIt(t *testing.T) {
	f := fabrictest.StartRemote(t, "star:2", func(*live.Config) {})
	b := f.Attach(1)
	for seq := range uint32(5) {
		a := f.Attach(0)
		want := datagram(a, b, 0, seq, 2048)
		send(t, a, want)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, b); !bytes.Equal(got, want) {
			t.Errorf("packet %d: %.40x", seq, got)
		}
	}
}
