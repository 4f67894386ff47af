package verbs_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"softrdma/internal/cma"
	"softrdma/internal/fabric/live"
	"softrdma/internal/management/sm"
	"softrdma/internal/registry"
	"softrdma/internal/topology"
	"softrdma/verbs"
)

// suiteEnvironment says that this process is the fabric of the tests with -infiniband.
const suiteEnvironment = "SOFTRDMA_TEST_FABRIC"

// suiteShape has three switches between most adapters.
const suiteShape = "fat-tree:k=8"

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case os.Getenv(suiteEnvironment) != "":
		if err := serveFabric(); err != nil {
			log.Fatal(err)
		}
	case *overFabric:
		code, err := runWithFabric(m)
		if err != nil {
			log.Fatalf("the fabric of the tests: %v", err)
		}
		os.Exit(code)
	default:
		os.Exit(m.Run())
	}
}

// serveFabric runs the fabric until the standard input ends.
func serveFabric() error {
	shape, err := topology.Generate(suiteShape)
	if err != nil {
		return err
	}
	f, err := live.Start(live.Config{Name: "suite", Fabric: shape, Manager: &sm.Config{}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return f.Close()
}

// runWithFabric runs the tests on a fabric, in a separate process as for programs.
func runWithFabric(m *testing.M) (code int, err error) {
	runtime.LockOSThread() // the fabric ends with the thread that starts it
	dir, err := os.MkdirTemp("", "softrdma-verbs-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Setenv("SOFTRDMA_FABRIC_DIR", dir); err != nil {
		return 0, err
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), suiteEnvironment+"=1")
	c.Stderr, c.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close(), c.Wait()) }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return 0, fmt.Errorf("expected that it is ready, found %q, %w", line, err)
	}
	s, err := newSuite()
	if err != nil {
		return 0, err
	}
	openPort, joinGroup = s.open, joinGroupOfPorts
	return m.Run(), nil
}

// A suite gives each address of the tests an adapter.
type suite struct {
	free   []string          // names of ports
	places map[string]string // names of ports by address
}

func newSuite() (*suite, error) {
	shape, err := topology.Generate(suiteShape)
	if err != nil {
		return nil, err
	}
	s := &suite{places: make(map[string]string)}
	for _, n := range shape.Nodes {
		if n.Kind == topology.Adapter {
			s.free = append(s.free, "ib:suite/"+n.ID)
		}
	}
	return s, nil
}

// open opens the adapter of an address, and waits until the subnet manager has configured it.
func (s *suite) open(t testing.TB, addr string, cfg verbs.Config) *verbs.Device {
	t.Helper()
	switch {
	case cfg.Lanes > 1:
		t.Skip("SKIPPED with -infiniband: the port of a fabric is one lane")
	case cfg.SameHost != "":
		t.Skip("SKIPPED with -infiniband: a test of the path through memory")
	case cfg.Shared:
		t.Skip("SKIPPED with -infiniband: a test of an address that programs share")
	}
	at := s.places[addr]
	if at == "" {
		if len(s.free) == 0 {
			t.Fatal("the tests have more addresses than the fabric has adapters")
		}
		at, s.free = s.free[0], s.free[1:]
		s.places[addr] = at
	}
	d, err := verbs.Open(at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "an active port", func() bool { p := d.QueryPort(); return p.Active && p.LID != 0 })
	return d
}

// joinGroupOfPorts lets the administrator choose the group for the first member.
func joinGroupOfPorts(t testing.TB, qkey uint32, members ...*side) (to verbs.AddressVector) {
	t.Helper()
	mgid := netip.IPv6Unspecified()
	for _, m := range members {
		g, err := registry.Of(m.dev).Subnet.Join(t.Context(), &cma.FabricJoin{MGID: mgid, QKey: qkey})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Leave)
		mgid = g.Path.Dst.Addr()
		to = verbs.AddressVector{DGID: verbs.GIDFrom(mgid), DLID: g.Path.LID(), ServiceLevel: g.Path.ServiceLevel}
	}
	return to
}
