//go:build interop && linux

package suites

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// An unchanged program is one of the distribution, with its libraries, at both ends: on Linux's device at one end, under
// softrdma exec at the other.
type unchanged struct {
	argv   []string
	gid    string   // the option that chooses the GID; "" where the connection manager does
	words  string   // by which a server of the connection manager tells that it listens, "" where it listens on TCP
	server []string // the server's own options
	peer   string   // the client's options before the server's address, which comes last
}

// execTimeLimit is how long a program may take. It polls, in an emulated machine.
const execTimeLimit = 3 * time.Minute

var unchangedPrograms = []unchanged{
	{argv: []string{"ibv_rc_pingpong", "-n", "300", "-c"}, gid: "-g"},
	{argv: []string{"ibv_uc_pingpong", "-n", "100", "-s", "1000", "-e"}, gid: "-g"},
	{argv: []string{"ibv_ud_pingpong", "-n", "100", "-s", "1000", "-e"}, gid: "-g"},
	{argv: []string{"ib_write_bw", "-F", "-n", "100"}, gid: "-x"},
	{argv: []string{"ib_read_bw", "-F", "-n", "100"}, gid: "-x"},
	{argv: []string{"ib_send_lat", "-F", "-n", "100"}, gid: "-x"},
	{argv: []string{"ib_atomic_bw", "-F", "-n", "100"}, gid: "-x"},
	{argv: []string{"rping", "-C", "20", "-V"}, words: "rdma_listen", server: []string{"-s", "-d"}, peer: "-c -a"},
}

// line returns the command line of an end. Peer is the server's address, for the client.
func (u *unchanged) line(gid, peer, own string, port int) []string {
	argv := append(append([]string{}, u.argv...), "-p", strconv.Itoa(port))
	if u.gid != "" {
		argv = append(argv, u.gid, gid)
	}
	switch {
	case peer == "" && u.words != "":
		argv = append(append([]string{"stdbuf", "-oL"}, argv...), append(u.server, "-a", own)...)
	case peer != "":
		argv = append(append(argv, strings.Fields(u.peer)...), peer)
	}
	return argv
}

// execCommand builds softrdma with the preloaded library in it.
func execCommand(t *testing.T, l *lab.Lab) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		needs(t, &lab.LackError{What: "gcc", Why: err.Error()})
	}
	if err := makePreload(); err != nil {
		t.Fatal(err)
	}
	return program(t, l, "cmd/softrdma")
}

// makePreload builds the preloaded library once. The command embeds it when it is built afterwards.
var makePreload = sync.OnceValue(func() error {
	c := exec.Command("make", "preload")
	c.Dir = "../.."
	c.Env = os.Environ()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("make preload: %w\n%s", err, out)
	}
	return nil
})

// The GIDs of the IPv4 addresses: of a guest, and of a softrdma device, which has one.
const (
	guestGID = "1"
	execGID  = "0"
)

func (u *unchanged) run(ctx context.Context, t *testing.T, listening func(context.Context) error, server *peers.Program, client func() *peers.Program) {
	t.Helper()
	alive, over := context.WithCancelCause(ctx)
	defer over(nil)
	go func() {
		select {
		case <-server.Done:
			over(errors.New("the server has ended"))
		case <-alive.Done():
		}
	}()
	if err := listening(alive); err != nil {
		server.Kill()
		t.Fatalf("%v; the server said:\n%s", err, lab.Tail(server.Said(), 1500))
	}
	c := client()
	c.Succeeds(t, execTimeLimit)
	if t.Failed() {
		server.Kill()
		<-server.Done
		t.Fatalf("the server said:\n%s\nthe client:\n%s", lab.Tail(server.Said(), 1500), lab.Tail(c.Said(), 1500))
	}
	server.Succeeds(t, execTimeLimit)
}

func TestExecProgramsServeLinux(t *testing.T) {
	l := openLab(t)
	softrdma := execCommand(t, l)
	for _, u := range unchangedPrograms {
		t.Run(strings.Join(u.argv, "_"), func(t *testing.T) {
			ctx, port := within(t, 3*execTimeLimit), lab.NextPort()
			line := append([]string{softrdma, "exec", "-d", lab.HostIPv4, "--"}, u.line(execGID, "", lab.HostIPv4, port)...)
			server := peers.StartHost(ctx, t, l, line...)
			u.run(ctx, t, func(ctx context.Context) error {
				if u.words != "" {
					return server.AwaitOutput(ctx, u.words)
				}
				return l.WaitListen(ctx, port)
			}, server, func() *peers.Program {
				return peers.StartGuest(ctx, t, l.Guests[0], u.line(guestGID, lab.HostIPv4, "", port)...)
			})
			peers.AwaitIdle(ctx, t, l.Guests[0], cmTimeLimit)
		})
	}
}

func TestLinuxServesExecPrograms(t *testing.T) {
	l := openLab(t)
	softrdma, g := execCommand(t, l), l.Guests[0]
	for _, u := range unchangedPrograms {
		t.Run(strings.Join(u.argv, "_"), func(t *testing.T) {
			ctx, port := within(t, 3*execTimeLimit), lab.NextPort()
			server := peers.StartGuest(ctx, t, g, u.line(guestGID, "", g.IPv4, port)...)
			u.run(ctx, t, func(ctx context.Context) error {
				if u.words != "" {
					return g.WaitRDMAListen(ctx, port)
				}
				return g.WaitListen(ctx, port)
			}, server, func() *peers.Program {
				line := append([]string{softrdma, "exec", "-d", lab.HostIPv4, "--"}, u.line(execGID, g.IPv4, "", port)...)
				return peers.StartHost(ctx, t, l, line...)
			})
			peers.AwaitIdle(ctx, t, g, cmTimeLimit)
		})
	}
}
