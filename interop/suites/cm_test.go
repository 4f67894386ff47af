//go:build interop && linux

package suites

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// A cmRole is one side of a run of librdmacm's example programs.
type cmRole struct {
	server bool
	addr   string // the server's
	port   int
}

// portOption returns the option -p.
func (r cmRole) portOption() []string { return []string{"-p", strconv.Itoa(r.port)} }

// serverOr returns the options of its side.
func (r cmRole) serverOr(server, client []string) []string {
	if r.server {
		return server
	}
	return client
}

// with returns the command line of a program whose server binds with -b and whose client connects with -s.
func (r cmRole) with(program string, options ...string) []string {
	argv := append([]string{program}, r.serverOr([]string{"-b", r.addr}, []string{"-s", r.addr})...)
	return append(argv, options...)
}

// A cmProgram is a program with options, which are the same for librdmacm's and softrdma's.
type cmProgram struct {
	name string
	argv func(cmRole) []string // the first word is the program
	port int                   // the only one that the program knows; 0: any
	v6   bool
	// command: softrdma's end is a subcommand of softrdma, otherwise of cmpeer.
	command bool
	// endless: Linux's server does not end with its client.
	endless bool
	// itself: Linux is also run against itself, to know failures that are not softrdma's.
	itself bool
	// iwarp: over iWARP, with siw.
	iwarp bool
	// slowness is a factor for cmTimeLimit; 0 means 1.
	slowness int
}

func rping(options ...string) func(cmRole) []string {
	return func(r cmRole) []string {
		argv := append([]string{"rping"}, r.serverOr([]string{"-s"}, []string{"-c"})...)
		return append(append(append(argv, "-a", r.addr), r.portOption()...), options...)
	}
}

func connecting(program string, options ...string) func(cmRole) []string {
	return func(r cmRole) []string { return append(r.with(program, options...), r.portOption()...) }
}

func rdmaServerAndClient(r cmRole) []string {
	return append([]string{r.serverOr([]string{"rdma_server"}, []string{"rdma_client"})[0], "-s", r.addr}, r.portOption()...)
}

// cmPrograms are the programs with one server and one client. rstream, rcopy, mckey and iperf3 have tests of their own.
var cmPrograms = []cmProgram{
	{name: "rping", argv: rping("-C", "100", "-V"), command: true, itself: true},
	{name: "rping_ipv6", argv: rping("-C", "20", "-V"), command: true, v6: true, itself: true},
	{name: "rping_large", argv: rping("-C", "10", "-V", "-S", "65535"), command: true},
	{name: "rping_own_queue_pair", argv: rping("-C", "10", "-V", "-q"), command: true, itself: true},
	{name: "ucmatose", argv: connecting("ucmatose", "-c", "5"), itself: true},
	{name: "ucmatose_large", argv: connecting("ucmatose", "-C", "20", "-S", "100000")},
	{name: "ucmatose_empty", argv: connecting("ucmatose", "-C", "0", "-c", "20")},
	{name: "ucmatose_port_space_ib_migrate", argv: connecting("ucmatose", "-P", "ib", "-m", "-c", "3")},
	{name: "ucmatose_tos_ack_timeout", argv: connecting("ucmatose", "-t", "32", "-a", "18")},
	{name: "ucmatose_ipv6", argv: connecting("ucmatose"), v6: true},
	{name: "udaddy", argv: func(r cmRole) []string { return r.with("udaddy", "-c", "5") }, port: 7174, itself: true},
	{name: "udaddy_mtu", argv: func(r cmRole) []string { return r.with("udaddy", "-S", "4096") }, port: 7174},
	{name: "udaddy_ipv6", argv: func(r cmRole) []string { return r.with("udaddy") }, port: 7174, v6: true},
	{name: "rdma_server_and_client", argv: rdmaServerAndClient, itself: true},
	{name: "cmtime", argv: connecting("cmtime", "-c", "100"), endless: true, itself: true},
	{name: "riostream_64", argv: connecting("riostream", "-S", "64", "-C", "10", "-I", "20", "-T", "v"), itself: true},
	{name: "riostream_100000", argv: connecting("riostream", "-S", "100000", "-C", "5", "-I", "5", "-T", "v")},
	{name: "rstream_ipv6", argv: connecting("rstream", "-S", "10000", "-C", "5", "-I", "5", "-T", "v"), v6: true, itself: true},
}

// softrdmaArgv returns the command line of softrdma's program in a role.
func (p cmProgram) softrdmaArgv(t *testing.T, l *lab.Lab, r cmRole) []string {
	if !p.command {
		return append(p.network().cmpeer(t, l), p.argv(r)...)
	}
	var source []string
	switch {
	case p.iwarp && r.server:
		r.addr = p.network().device()
	case p.iwarp:
		source = []string{"-I", p.network().device()}
	}
	return append(append([]string{program(t, l, "cmd/softrdma")}, p.argv(r)...), source...)
}

// cmTimeLimit is how long a program may take.
const cmTimeLimit = time.Minute

// limit returns how long the program may take.
func (p cmProgram) limit() time.Duration { return cmTimeLimit * time.Duration(max(p.slowness, 1)) }

// nextPortFor returns the port of a run.
func (p cmProgram) nextPortFor() int {
	if p.port != 0 {
		return p.port
	}
	return lab.NextPort()
}

// network returns the network in which the program runs.
func (p cmProgram) network() network { return network{p.iwarp, p.v6} }

// serveInGuest starts Linux's server and waits until it listens.
func (p cmProgram) serveInGuest(ctx context.Context, t *testing.T, g *lab.Guest) (*peers.Program, cmRole) {
	t.Helper()
	r := cmRole{server: true, addr: p.network().guest(g), port: p.nextPortFor()}
	e := peers.StartGuest(ctx, t, g, p.argv(r)...)
	if err := g.WaitRDMAListen(ctx, r.port); err != nil {
		t.Fatalf("%v; the server: %v\n%s", err, e.Err, e.Said())
	}
	r.server = false
	return e, r
}

// finish waits for both ends. It kills an endless server.
func (p cmProgram) finish(t *testing.T, server, client *peers.Program, linuxServes bool) {
	t.Helper()
	client.Succeeds(t, p.limit())
	t.Logf("the client said:\n%s", lab.Tail(client.Said(), 1500))
	if p.endless && linuxServes {
		server.Kill()
		<-server.Done
		return
	}
	if t.Failed() {
		server.Kill() // it would wait forever
		<-server.Done
		t.Logf("the server said:\n%s", lab.Tail(server.Said(), 1500))
		return
	}
	server.Succeeds(t, cmTimeLimit)
}

// wrongSumTries is how often a program over iWARP is run if softrdma finds a wrong CRC. siw sends one about once in
// some hundred runs: when TCP has no room, siw_tx_hdt returns before its CRC is marked as done, and the thread that
// TCP's acknowledge wakes may continue before that.
const wrongSumTries = 3

// errWrongSum reports a run in which softrdma found a wrong CRC of siw.
var errWrongSum = errors.New("softrdma found a wrong CRC")

// wrongSum waits for softrdma's program. If that found a wrong CRC, it ends the other one too and returns errWrongSum.
func (p cmProgram) wrongSum(softrdma, siw *peers.Program) error {
	if !p.iwarp {
		return nil
	}
	select {
	case <-softrdma.Done:
	case <-time.After(p.limit()):
		return nil
	}
	if softrdma.Err == nil || !strings.Contains(softrdma.Said(), "MPA_CRC") {
		return nil
	}
	siw.Kill()
	<-siw.Done
	return fmt.Errorf("%w: %s", errWrongSum, peers.LastLine(softrdma.Said()))
}

// run runs both ends, and again after a wrong CRC of siw.
func (p cmProgram) run(t *testing.T, l *lab.Lab, linuxServes bool, start func(context.Context) (server, client *peers.Program)) {
	t.Helper()
	p.softrdmaArgv(t, l, cmRole{}) // which may build the program
	known := func(err error) bool { return errors.Is(err, errWrongSum) }
	err := lab.Retry(t, wrongSumTries, known, func(int) error {
		ctx := within(t, p.limit()+cmTimeLimit)
		server, client := start(ctx)
		softrdma, siw := server, client
		if linuxServes {
			softrdma, siw = client, server
		}
		if err := p.wrongSum(softrdma, siw); err != nil {
			return err
		}
		p.finish(t, server, client, linuxServes)
		p.network().awaitIdle(ctx, t, l.Guests[0])
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCMSoftrdmaServesLinux(t *testing.T) { cmSoftrdmaServes(t, cmPrograms) }

func cmSoftrdmaServes(t *testing.T, programs []cmProgram) {
	l := openLab(t)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			p.run(t, l, false, func(ctx context.Context) (server, client *peers.Program) {
				r := cmRole{server: true, addr: p.network().host(), port: p.nextPortFor()}
				server = peers.StartHost(ctx, t, l, p.softrdmaArgv(t, l, r)...)
				if err := server.AwaitServing(ctx); err != nil {
					t.Fatal(err)
				}
				r.server = false
				return server, peers.StartGuest(ctx, t, l.Guests[0], p.argv(r)...)
			})
		})
	}
}

func TestCMLinuxServesSoftrdma(t *testing.T) { cmLinuxServes(t, cmPrograms) }

func cmLinuxServes(t *testing.T, programs []cmProgram) {
	l := openLab(t)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			p.run(t, l, true, func(ctx context.Context) (server, client *peers.Program) {
				server, r := p.serveInGuest(ctx, t, l.Guests[0])
				return server, peers.StartHost(ctx, t, l, p.softrdmaArgv(t, l, r)...)
			})
		})
	}
}

// TestCMLinuxAgainstItself shows that the runs are fair.
func TestCMLinuxAgainstItself(t *testing.T) { cmLinuxAgainstItself(t, cmPrograms) }

func cmLinuxAgainstItself(t *testing.T, programs []cmProgram) {
	l := openLab(t)
	for _, p := range programs {
		if !p.itself {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			ctx := within(t, 2*cmTimeLimit)
			server, r := p.serveInGuest(ctx, t, l.Guests[1])
			client := peers.StartGuest(ctx, t, l.Guests[0], p.argv(r)...)
			p.finish(t, server, client, true)
		})
	}
}
