//go:build interop && linux

package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers/exerciser"
)

// An Exerciser runs one end of scenarios.
type Exerciser interface {
	// Address is where a server listens, without the port.
	Address(v6 bool) string
	// Start starts the end. The results come on its standard output, one JSON value per line.
	Start(ctx context.Context, args []string, v6 bool) (*Program, error)
	// WaitListen waits until the end listens.
	WaitListen(ctx context.Context, port int) error
	String() string
}

// maxRestarts bounds how often an exercise continues after a scenario that ended a process.
const maxRestarts = 8

// ExerciseTimeout is how long one pair of processes may take. All scenarios take 20 s on an idle machine, and they end
// when they are done.
const ExerciseTimeout = 5 * time.Minute

// Exercise runs scenarios between two ends and returns the results by scenario and role. After a scenario that ends
// a process, the rest run in new processes. The error joins all such ends.
func Exercise(ctx context.Context, server, client Exerciser, names []string, v6 bool, mtu int) (exerciser.Results, error) {
	all := exerciser.Results{}
	for _, name := range names {
		all[name] = map[string]exerciser.Result{}
	}
	var errs []error
	for restarts := 0; len(names) > 0; restarts++ {
		done, err := exerciseOnce(ctx, server, client, names, v6, mtu, all)
		if err != nil {
			failed := "(after the last)"
			if done < len(names) {
				failed = names[done]
			}
			errs = append(errs, fmt.Errorf("%v serves %v: %s: %w", server, client, failed, err))
		}
		if err == nil || done >= len(names) || restarts == maxRestarts || ctx.Err() != nil {
			break
		}
		names = names[done+1:]
	}
	return all, errors.Join(errs...)
}

// exerciseOnce returns how many scenarios both ends finished.
func exerciseOnce(ctx context.Context, server, client Exerciser, names []string, v6 bool, mtu int, all exerciser.Results) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ExerciseTimeout, fmt.Errorf("the exercise took longer than %v", ExerciseTimeout))
	defer cancel()
	port := lab.NextPort()
	common := []string{"--port", strconv.Itoa(port), "--mtu", strconv.Itoa(mtu)}
	s, err := server.Start(ctx, append([]string{"--role", exerciser.Server, "--listen", server.Address(v6)}, common...), v6)
	if err != nil {
		return 0, err
	}
	defer s.Kill()
	if err := server.WaitListen(ctx, port); err != nil {
		s.Kill()
		_, said := s.Output(ctx)
		return 0, fmt.Errorf("the server: %w; %w", err, said)
	}
	c, err := client.Start(ctx, append([]string{"--role", exerciser.Client, "--connect", server.Address(v6), "--scenario", strings.Join(names, ",")}, common...), v6)
	if err != nil {
		return 0, err
	}
	clientSaid, err1 := c.Output(ctx)
	if err1 != nil {
		err1 = fmt.Errorf("the client: %w", err1)
	}
	// The server ends when the client's connection does.
	ending, cancel := context.WithTimeoutCause(ctx, 70*time.Second, errors.New("the server did not end with the client's connection"))
	defer cancel()
	serverSaid, err2 := s.Output(ending)
	if err2 != nil {
		err2 = fmt.Errorf("the server: %w", err2)
	}
	n, err3 := collect(clientSaid, all)
	m, err4 := collect(serverSaid, all)
	return min(n, m), errors.Join(err1, err2, err3, err4)
}

// collect reads results and returns how many there were.
func collect(stdout string, into exerciser.Results) (int, error) {
	n := 0
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, `{"scenario"`) {
			continue
		}
		var r exerciser.Result
		decode := json.NewDecoder(strings.NewReader(line))
		decode.DisallowUnknownFields()
		if err := decode.Decode(&r); err != nil {
			return n, fmt.Errorf("a result: %w: %s", err, line)
		}
		if into[r.Scenario] == nil {
			return n, fmt.Errorf("a result for %q, which was not asked for", r.Scenario)
		}
		into[r.Scenario][r.Role] = r
		n++
	}
	return n, nil
}

// Siw is exerciser.VerbsPeer in a guest, over siw.
type Siw struct{ Guest *lab.Guest }

func (s Siw) String() string { return "siw in guest " + s.Guest.Name }

// Address implements [Exerciser].
func (s Siw) Address(v6 bool) string {
	if v6 {
		return s.Guest.IWARPv6
	}
	return s.Guest.IWARPv4
}

// Start implements [Exerciser].
func (s Siw) Start(ctx context.Context, args []string, v6 bool) (*Program, error) {
	return startVerbsPeer(ctx, s.Guest, append([]string{"--dev", "siw0", "--gid-index", "0", "--cm", s.Address(v6)}, args...))
}

// WaitListen implements [Exerciser].
func (s Siw) WaitListen(ctx context.Context, port int) error { return waitGuest(ctx, s.Guest, port) }

// Rxe is exerciser.VerbsPeer in a guest, over rxe.
type Rxe struct{ Guest *lab.Guest }

func (r Rxe) String() string { return "rxe in guest " + r.Guest.Name }

// Address implements [Exerciser].
func (r Rxe) Address(v6 bool) string {
	if v6 {
		return r.Guest.IPv6
	}
	return r.Guest.IPv4
}

// GIDIndex is the index of the guest's address in rxe's GID table: the link-local address comes first.
func GIDIndex(v6 bool) int {
	if v6 {
		return 2
	}
	return 1
}

// Start implements [Exerciser].
func (r Rxe) Start(ctx context.Context, args []string, v6 bool) (*Program, error) {
	return startVerbsPeer(ctx, r.Guest, append([]string{"--dev", "rxe0", "--gid-index", strconv.Itoa(GIDIndex(v6))}, args...))
}

func startVerbsPeer(ctx context.Context, g *lab.Guest, args []string) (*Program, error) {
	const script = "/run/exerciser/verbs_peer.py"
	for path, content := range map[string][]byte{script: exerciser.VerbsPeer, "/run/exerciser/scenarios.json": exerciser.ScenariosJSON} {
		if err := g.WriteFile(ctx, path, content); err != nil {
			return nil, err
		}
	}
	return startGuest(ctx, g, append([]string{"/usr/bin/python3", script}, args...)...)
}

// WaitListen implements [Exerciser].
func (r Rxe) WaitListen(ctx context.Context, port int) error { return waitGuest(ctx, r.Guest, port) }

func waitGuest(ctx context.Context, g *lab.Guest, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return g.WaitListen(ctx, port)
}

// Host is a program on the host with the command line of exerciser.VerbsPeer.
type Host struct {
	Lab   *lab.Lab
	Path  string
	IWARP bool
}

func (h Host) String() string { return "softrdma" }

// Address implements [Exerciser].
func (h Host) Address(v6 bool) string {
	switch {
	case h.IWARP && v6:
		return lab.HostIWARPv6
	case h.IWARP:
		return lab.HostIWARPv4
	case v6:
		return lab.HostIPv6
	}
	return lab.HostIPv4
}

// Start implements [Exerciser].
func (h Host) Start(ctx context.Context, args []string, v6 bool) (*Program, error) {
	device := h.Address(v6)
	if h.IWARP {
		device = "iwarp:" + device
	}
	return startHost(ctx, h.Lab, append([]string{h.Path, "--dev", device}, args...)...)
}

// WaitListen implements [Exerciser].
func (h Host) WaitListen(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return h.Lab.WaitListen(ctx, port)
}
