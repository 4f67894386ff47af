package iperf3

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// tests are the tests to run, each with the shortest time that iperf3 allows.
var tests = []Test{
	{Time: time.Second},
	{Time: time.Second, Parallel: 2, Reverse: true},
}

func (t Test) String() string { return fmt.Sprintf("P%d_reverse=%v", t.Parallel, t.Reverse) }

type outcome struct {
	Report
	err error
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	l.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	return l
}

func checkReport(t *testing.T, who string, o outcome, test Test) {
	t.Helper()
	if o.err != nil {
		t.Fatalf("%s: %v", who, o.err)
	}
	if want := max(1, test.Parallel); len(o.Streams) != want || o.Reverse != test.Reverse {
		t.Fatalf("%s: %+v, want %d streams, reverse %v", who, o.Report, want, test.Reverse)
	}
	for _, s := range o.Streams {
		if s.Received == 0 || s.Received > s.Sent {
			t.Errorf("%s: stream %d received %d of %d sent bytes", who, s.ID, s.Received, s.Sent)
		}
	}
}

func TestServerAndClientCountTheSameTransfer(t *testing.T) {
	for _, test := range tests {
		t.Run(test.String(), func(t *testing.T) {
			l := listen(t)
			served := make(chan outcome, 1)
			go func() {
				r, err := Serve(l)
				served <- outcome{r, err}
			}()
			r, err := Run(func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, test)
			checkReport(t, "client", outcome{r, err}, test)
			checkReport(t, "server", <-served, test)
		})
	}
}

// debianProgram returns the path of Debian's iperf3.
func debianProgram(t *testing.T) string {
	path, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("SKIPPED: iperf3 is not installed")
	}
	return path
}

func TestServerServesDebiansClient(t *testing.T) {
	program := debianProgram(t)
	for _, test := range tests {
		t.Run(test.String(), func(t *testing.T) {
			l := listen(t)
			said := make(chan string, 1)
			argv := []string{"-c", "127.0.0.1", "-p", strconv.Itoa(l.Addr().(*net.TCPAddr).Port), "-t", "1", "-P", strconv.Itoa(max(1, test.Parallel))}
			if test.Reverse {
				argv = append(argv, "-R")
			}
			go func() {
				out, err := exec.Command(program, argv...).CombinedOutput()
				said <- fmt.Sprintf("%s%v", out, err)
			}()
			r, err := Serve(l)
			if err != nil {
				l.Close()
				t.Logf("the client says:\n%s", <-said)
			}
			checkReport(t, "server", outcome{r, err}, test)
		})
	}
}

func TestClientRunsAgainstDebiansServer(t *testing.T) {
	program := debianProgram(t)
	for _, test := range tests {
		t.Run(test.String(), func(t *testing.T) {
			l := listen(t)
			addr := l.Addr().(*net.TCPAddr)
			l.Close()
			server := exec.CommandContext(t.Context(), program, "-s", "-1", "-B", "127.0.0.1", "-p", strconv.Itoa(addr.Port))
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(10 * time.Second)
			r, err := Run(func() (net.Conn, error) {
				for {
					c, err := net.Dial("tcp", addr.String())
					if err == nil || time.Now().After(deadline) {
						return c, err
					}
					time.Sleep(20 * time.Millisecond)
				}
			}, test)
			checkReport(t, "client", outcome{r, err}, test)
			if err := server.Wait(); err != nil {
				t.Errorf("the server: %v", err)
			}
		})
	}
}
