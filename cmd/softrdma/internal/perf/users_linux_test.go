package perf

import (
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/verbs"
)

// Two users that every system has, besides root.
const (
	serverUser = 65534
	clientUser = 1
)

// userName returns the name of a user, or its number if it has none.
func userName(number string) string {
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// publicDirectory returns a directory in which users find each other's devices.
func publicDirectory(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can start processes of other users")
	}
	top := clitest.ShortDir(t)
	dir := filepath.Join(top, "host")
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Processes of two users use memory if each allows the other, by name or number. Otherwise
// they take the network and say why, or fail if memory is required.
func TestSameHostOfTwoUsers(t *testing.T) {
	env := []string{"SOFTRDMA_HOST_DIR=" + publicDirectory(t)}
	for _, c := range []struct {
		name           string
		server, client []string
		path           verbs.Path
		reason         string
	}{
		{"no user is allowed", nil, nil, verbs.PathNetwork, "HOST_USER"},
		{"the client is allowed alone", []string{"--same-host-allow", "1"}, nil, verbs.PathNetwork, "HOST_USER"},
		{"the server is allowed alone", nil, []string{"--same-host-allow", "65534"}, verbs.PathNetwork, "HOST_USER"},
		{"another user is allowed", []string{"--same-host-allow", "2"}, []string{"--same-host-allow", "65534"}, verbs.PathNetwork, "HOST_USER"},
		{"allowed by number", []string{"--same-host-allow", "2,1"}, []string{"--same-host-allow", "65534"}, verbs.PathSameHost, ""},
		{"allowed by name", []string{"--same-host-allow", userName("1")}, []string{"--same-host-allow", userName("65534")}, verbs.PathSameHost, ""},
		{"all are allowed", []string{"--same-host-allow", "all"}, []string{"--same-host-allow", "all", "--same-host", "require"}, verbs.PathSameHost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			port, device := clitest.FreePort(t), clitest.LoopbackDevice(t)
			server := clitest.StartAs(t, serverUser, env, append([]string{"perf", "write", "lat", "-d", device, "-p", port}, c.server...)...)
			server.Prints("waiting for a client")
			args := []string{"perf", "write", "lat", "127.0.0.1", "-d", clitest.LoopbackDevice(t), "-p", port, "-n", "50", "-s", "100000", "--json"}
			client := clitest.StartAs(t, clientUser, env, append(args, c.client...)...)
			var r report
			if err := json.Unmarshal(client.Output(), &r); err != nil {
				t.Fatal(err)
			}
			if r.Path != c.path || r.Reason != c.reason {
				t.Errorf("path %q for %q, expected %q for %q", r.Path, r.Reason, c.path, c.reason)
			}
			if code := server.ExitCode(); code != 0 {
				t.Errorf("the server ends with %d: %s", code, &server.Stderr)
			}
		})
	}
}

func TestSameHostRequiredOfAUserThatIsNotAllowed(t *testing.T) {
	env := []string{"SOFTRDMA_HOST_DIR=" + publicDirectory(t)}
	port := clitest.FreePort(t)
	server := clitest.StartAs(t, serverUser, env, "perf", "write", "lat", "-d", clitest.LoopbackDevice(t), "-p", port)
	server.Prints("waiting for a client")
	client := clitest.StartAs(t, clientUser, env, "perf", "write", "lat", "127.0.0.1", "-d", clitest.LoopbackDevice(t), "-p", port, "--same-host", "require")
	client.Fails(cli.ExitFailed, "same host required", "not allowed", "found user 65534")
}

func TestPathOfAUserThatIsNotAllowedNamesTheReason(t *testing.T) {
	env := []string{"SOFTRDMA_HOST_DIR=" + publicDirectory(t)}
	port := clitest.FreePort(t)
	server := clitest.StartAs(t, serverUser, env, "perf", "write", "lat", "-d", clitest.LoopbackDevice(t), "-p", port)
	server.Prints("waiting for a client")
	client := clitest.StartAs(t, clientUser, env, "perf", "write", "lat", "127.0.0.1", "-d", clitest.LoopbackDevice(t), "-p", port, "-n", "50")
	if out := string(client.Output()); !strings.Contains(out, "path network (HOST_USER)") {
		t.Errorf("printed\n%s", out)
	}
}
