package perf

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/cmd/softrdma/internal/measure"
)

// startPair starts a server and a client of a test.
func startPair(t *testing.T, args ...string) (server, client *clitest.Process) {
	t.Helper()
	port := clitest.FreePort(t)
	server = clitest.Start(t, "perf", args[0], args[1], "-p", port, "-d", clitest.LoopbackDevice(t))
	server.Prints("waiting for a client")
	client = clitest.Start(t, append(append([]string{"perf"}, args...), "-p", port, "-d", clitest.LoopbackDevice(t), "127.0.0.1")...)
	return server, client
}

func TestPerfEachOperation(t *testing.T) {
	row := map[string]*regexp.Regexp{
		measure.MetricBandwidth: regexp.MustCompile(`(?m)^ (\d+) +(\d+) +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d\d +\d+\.\d{6}$`),
		measure.MetricLatency:   regexp.MustCompile(`(?m)^ (\d+) +(\d+)( +\d+\.\d\d){7}$`),
	}
	for _, op := range measure.Operations {
		for _, metric := range measure.Metrics {
			t.Run(op+" "+metric, func(t *testing.T) {
				size := "5000"
				if op == measure.OpAtomic {
					size = "8"
				}
				server, client := startPair(t, op, metric, "-s", size, "-n", "300")
				out := client.Succeeds()
				server.Succeeds()
				m := row[metric].FindAllStringSubmatch(out, -1)
				if len(m) != 1 || m[0][1] != size || m[0][2] != "300" {
					t.Errorf("expected one row of 300 messages of %s bytes, found\n%s", size, out)
				}
				if !strings.Contains(out, titles[op]) || !strings.Contains(out, "#bytes") {
					t.Errorf("expected title and header, found\n%s", out)
				}
			})
		}
	}
}

func TestPerfVariants(t *testing.T) {
	for _, args := range []string{
		"write bw -b -q 3 -s 20000 -n 100",
		"send bw -b -q 2 -s 3000 -n 200 -e",
		"read bw -b -t 1 -n 50 -s 1",
		"atomic bw -b -q 2 -n 300",
		"write bw -D 0.2 -m 256",
		"send lat -D 0.2 -e",
		"send bw -D 0.2 -s 1M",
		"send bw -a -b -q 2 -n 3 -t 4",
		"read lat -n 50 -s 100000",
		"write bw -n 50 -s 100000 --congestion dcqcn --recovery go-back-n",
		"send bw -n 50 -s 100000 --congestion none --recovery selective-repeat",
		"write lat -n 50 --congestion delay",
		"send bw -b -q 2 -n 100 -s 100000 --memory ordinary",
		"atomic lat -n 50 --memory ordinary",
		"read lat -n 50 --memory alloc",
	} {
		t.Run(args, func(t *testing.T) {
			server, client := startPair(t, strings.Fields(args)...)
			client.Succeeds()
			server.Succeeds()
		})
	}
}

// A control that follows telemetry is none on a network without.
func TestPerfSaysThatNoTelemetryComes(t *testing.T) {
	server, client := startPair(t, "write", "bw", "-s", "100K", "-n", "20", "--congestion", "hpcc")
	out := client.Succeeds()
	server.Succeeds()
	if !strings.Contains(out, "hpcc was a window: softrdma explain CONGESTION_UNINFORMED") {
		t.Error(out)
	}
}

func TestPerfJSONDescribesBothEnds(t *testing.T) {
	server, client := startPair(t, "write", "bw", "-s", "100K", "-n", "200", "-b", "--json")
	var r report
	if err := json.Unmarshal([]byte(client.Succeeds()), &r); err != nil {
		t.Fatal(err)
	}
	server.Succeeds()
	if r.Operation != measure.OpWrite || !r.Bidirectional || r.QPs != 1 || r.MTU != 4096 || r.Client == r.Server || len(r.Bandwidth) != 1 {
		t.Fatalf("unexpected report %+v", r)
	}
	b := r.Bandwidth[0]
	if b.Size != 100<<10 || b.Iterations != 400 || b.Average <= 0 || b.Peak < b.Average || b.PerSecond <= 0 || b.ClientCPU <= 0 || b.ServerCPU <= 0 {
		t.Errorf("unexpected result %+v", b)
	}
}

func TestPerfSweepHasEachSize(t *testing.T) {
	server, client := startPair(t, "write", "lat", "-a", "-n", "3", "--json")
	var r report
	if err := json.Unmarshal([]byte(client.Succeeds()), &r); err != nil {
		t.Fatal(err)
	}
	server.Succeeds()
	if len(r.Latency) != 23 || r.Latency[0].Size != 2 || r.Latency[22].Size != 8<<20 {
		t.Errorf("expected 2 B to 8 MiB, found %+v", r.Latency)
	}
	for _, l := range r.Latency {
		if l.Iterations != 3 || l.Min <= 0 || l.Min > l.Typical || l.Typical > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
			t.Errorf("latencies out of order: %+v", l)
		}
	}
}

// How many messages complete between the margins depends on the machine, but not how the
// rate follows from it.
func TestPerfMarginsDivideByTheRest(t *testing.T) {
	server, client := startPair(t, "write", "bw", "-s", "100K", "-q", "2", "-D", "0.4", "--margin", "0.15", "--json")
	var r report
	if err := json.Unmarshal([]byte(client.Succeeds()), &r); err != nil {
		t.Fatal(err)
	}
	server.Succeeds()
	b := r.Bandwidth[0]
	if len(b.Shares) != 2 || b.Shares[0]+b.Shares[1] != b.Iterations {
		t.Fatalf("%d messages counted, of each queue pair %v", b.Iterations, b.Shares)
	}
	// The middle 0.1 seconds count.
	if want := float64(b.Iterations*100<<10) * 8e-9 / 0.1; math.Abs(b.Average-want) > want/1000 {
		t.Errorf("%v Gbit/s, expected %v", b.Average, want)
	}
}

func TestPerfWithoutDeviceFindsTwoOnOneMachine(t *testing.T) {
	port := clitest.FreePort(t)
	server := clitest.Start(t, "perf", "send", "lat", "-p", port)
	server.Prints("waiting for a client")
	out := clitest.Run(t, "perf", "send", "lat", "-p", port, "-n", "20", "--json", "127.0.0.1")
	server.Succeeds()
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Client == r.Server || !strings.HasPrefix(r.Client, "127.0.0.") {
		t.Errorf("expected two loopback devices, found %s and %s", r.Client, r.Server)
	}
}

func TestPerfWrongArguments(t *testing.T) {
	for args, word := range map[string]string{
		"write":                                                    "HOST",
		"write bw a b":                                             "HOST",
		"push bw":                                                  "push",
		"write speed":                                              "speed",
		"write bw -s 0 localhost":                                  "-s",
		"write bw -s 3G localhost":                                 "-s",
		"write bw -s x localhost":                                  "x",
		"write bw -m 1000 localhost":                               "-m",
		"write bw -q 0 localhost":                                  "-q",
		"write bw -q 1000 -s 8M localhost":                         "memory",
		"write bw -t 100000 localhost":                             "-t",
		"write bw -n 0 localhost":                                  "-n",
		"write bw -n -1 localhost":                                 "-n",
		"write bw -n 5 -D 1 localhost":                             "duration",
		"write bw -D 1 --margin .5 localhost":                      "--margin",
		"write bw --margin 1 localhost":                            "--margin",
		"write lat -D 1 --margin .1 localhost":                     "--margin",
		"write bw -D -1 localhost":                                 "-D",
		"write bw -a -s 5 localhost":                               "size",
		"write lat -e localhost":                                   "polling memory",
		"write lat -b localhost":                                   "-b",
		"write lat -q 2 localhost":                                 "-q",
		"atomic bw -s 16 localhost":                                "8 bytes",
		"write bw --keep localhost":                                "--keep",
		"write bw --no-such-flag localhost":                        "no-such-flag",
		"write bw -D 1e300 localhost":                              "-D",
		"write bw --memory heap localhost":                         "expected alloc or ordinary",
		"write bw --congestion cubic localhost":                    "expected window, dcqcn, delay, path, none, timely, swift, bounded or hpcc",
		"write bw --recovery none localhost":                       "expected selective-repeat or go-back-n",
		"write bw --recovery go-back-n --protocol iwarp localhost": "TCP",
		"write lat -s 8 -n 2 --port 99999 x":                       "99999",
	} {
		clitest.Start(t, append([]string{"perf"}, strings.Fields(args)...)...).Fails(cli.ExitUsage, word)
	}
}

func TestPerfWithoutServer(t *testing.T) {
	clitest.Start(t, "perf", "write", "bw", "-p", clitest.FreePort(t), "127.0.0.1").Fails(cli.ExitPeer, "start it there first")
	if runtime.GOOS == "linux" { // it refuses to connect to the broadcast address
		clitest.Start(t, "perf", "write", "bw", "255.255.255.255").Fails(cli.ExitPeer, "is there a route to it", "TCP port 18516")
	}
}

func TestPerfReportsDeviceInUseAtOnce(t *testing.T) {
	dev := clitest.LoopbackDevice(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", clitest.FreePort(t), "-d", dev)
	server.Prints("waiting for a client")
	clitest.Start(t, "perf", "write", "bw", "-p", clitest.FreePort(t), "-d", dev).Fails(cli.ExitFailed, "address already in use")
}

// When a peer is killed, the other end ends without waiting for a timeout, which its error
// would name.
func TestPerfNoticesKilledPeer(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			server, client := startPair(t, "write", "bw", "-D", "60")
			server.Prints("measures write bw")
			time.Sleep(300 * time.Millisecond)
			dies, lives := client, server
			if who == "server" {
				dies, lives = server, client
			}
			dies.Cmd.Process.Kill()
			lives.Fails(cli.ExitPeer, "went away")
		})
	}
}

// A server checks the settings of every client. See also
// TestAttackOtherProgramsOnPerfServer.
func TestPerfServerChecksClientSettings(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want string
	}{
		"version":       {`{"do":"hello","version":99,"settings":{}}`, "version"},
		"no settings":   {`{"do":"hello","version":1}`, "version"},
		"operation":     {`{"do":"hello","version":1,"settings":{"operation":"x","metric":"bw","sizes":[1],"iterations":1,"qps":1,"depth":1}}`, `"x"`},
		"negative size": {`{"do":"hello","version":1,"settings":{"operation":"write","metric":"bw","sizes":[-5],"iterations":1,"qps":1,"depth":1}}`, "-s"},
		"memory":        {`{"do":"hello","version":1,"settings":{"operation":"write","metric":"bw","sizes":[1073741824],"iterations":1,"qps":1000,"depth":1}}`, "memory"},
		"no endpoints": {`{"do":"hello","version":1,"settings":{"operation":"write","metric":"bw","sizes":[8],"iterations":1,"qps":1,"depth":1}}` + "\n" +
			`{"do":"connect"}`, "endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			port := clitest.FreePort(t)
			server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", clitest.LoopbackDevice(t))
			server.Prints("waiting for a client")
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintln(conn, c.line)
			server.Fails(cli.ExitPeer, c.want)
		})
	}
}
