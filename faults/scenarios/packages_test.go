package scenarios

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/faults"
	"softrdma/faults/file"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/msg"
	"softrdma/rdmanet"
	"softrdma/rpc"
)

const (
	// silence is how long the peer may be silent. Rebooting peers take longer, and flapping links do not.
	silence = 3 * time.Second
	// timeLimit is how long an operation may take. One that takes longer hangs.
	timeLimit = 2 * time.Minute
	// rounds, with a pause after each, take longer than the scenarios' times.
	rounds = 210
	pause  = 50 * time.Millisecond
)

// errWrong is the error of bytes that are not those that were sent.
var errWrong = errors.New("wrong bytes")

// An exchange makes the rounds of a program between two hosts, and returns how many were right, and the error
// that ended them.
type exchange func(a, b *bubble.Host, round func(int) []byte) (done int, err error)

// exchanges are the programs, by the package that they use.
var exchanges = map[string]exchange{"msg": overMsg, "rpc": overRPC, "rdmanet": overRdmanet}

// idle are the scenarios whose rules find nothing in a package's packets.
var idle = map[string]string{
	"rdmanet slow-disk": "streams have no READ",
}

// endless are the scenarios under which a call ends with its context and no sooner.
var endless = map[string]string{
	"rpc mtu-black-hole": "the client can connect, and repeats the call on each connection",
}

// Programs of msg, rpc and rdmanet end under each scenario, with right bytes or an error that has a name.
// Without bit rot, which only programs can detect, no byte is wrong.
func TestPackagesEndUnderEachScenario(t *testing.T) {
	for name, f := range exchanges {
		for _, scenario := range Names() {
			t.Run(name+"/"+scenario, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					done, hits, err := under(t, scenario, f)
					t.Logf("%d of %d rounds, %d hits, %v", done, rounds, hits, err)
					check(t, name+" "+scenario, done, hits, err)
				})
			})
		}
	}
}

func check(t *testing.T, run string, done, hits int, err error) {
	t.Helper()
	rot := strings.HasSuffix(run, " bit-rot")
	switch {
	case err == nil && done == rounds && endless[run] == "":
	case errors.Is(err, errWrong) && rot:
	case named(err):
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		if endless[run] == "" {
			t.Errorf("hangs after %d rounds: %v", done, err)
		}
	default:
		t.Errorf("ends after %d rounds without a named error: %v", done, err)
	}
	if why := idle[run]; (hits == 0) != (why != "") {
		t.Errorf("%d hits: %s", hits, why)
	}
}

// named reports whether programs can tell what the error is.
func named(err error) bool {
	for _, e := range []error{
		msg.ErrPeer, rpc.ErrUnreachable, rpc.ErrOutcomeUnknown, rpc.ErrProtocol,
		syscall.ECONNRESET, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, io.ErrUnexpectedEOF, io.EOF,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// under runs an exchange under a scenario at both hosts.
func under(t *testing.T, scenario string, f exchange) (done, hits int, err error) {
	text, _ := Text(scenario)
	rules, err := file.Parse(scenario, text)
	if err != nil {
		t.Fatal(err)
	}
	d := simnet.Faults{Delay: 10 * time.Microsecond}
	w := bubble.New(rules.Seed, simnet.LinkConfig{Egress: d, Ingress: d})
	defer w.End()
	a, b := host(t, w, "127.0.0.2", rules), host(t, w, "127.0.0.3", rules)
	rng := rand.New(rand.NewPCG(rules.Seed, 3))
	done, err = f(a, b, func(i int) []byte { return fill(rng, i, scenario == "bit-rot") })
	for _, h := range []*bubble.Host{a, b} {
		for _, n := range h.Device.Faults().Counts() {
			hits += int(n)
		}
		if err := h.Device.Close(); err != nil {
			t.Errorf("close of a device: %v", err)
		}
	}
	return done, hits, err
}

func host(t *testing.T, w *bubble.World, address string, rules faults.Rules) *bubble.Host {
	h, err := w.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Device.Faults().Set(rules); err != nil {
		t.Fatal(err)
	}
	return h
}

// fill returns the bytes of a round: short or long, with as many in each as hits of rare faults need.
func fill(rng *rand.Rand, i int, long bool) []byte {
	n := []int{100, 3000, 40_000, 40_000, 40_000}[i%5]
	if long {
		n = 1 << 20
	}
	b := make([]byte, n)
	for k := 0; k+8 <= n; k += 8 {
		binary.LittleEndian.PutUint64(b[k:], rng.Uint64())
	}
	return b
}

func overMsg(a, b *bubble.Host, round func(int) []byte) (done int, err error) {
	config := msg.Config{PeerTimeout: silence}
	x, err := msg.NewWorker(a.Device, config)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	y, err := msg.NewWorker(b.Device, config)
	if err != nil {
		return 0, err
	}
	defer y.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	e, err := x.Connect(ctx, y.Address())
	if err != nil {
		return 0, err
	}
	defer e.Close(ctx)
	for done = range rounds {
		data := round(done)
		buf := make([]byte, len(data))
		r, s := y.Receive(msg.Buffers{buf}, 1, msg.All), e.Send(1, msg.Buffers{data}, &msg.SendOptions{Sync: true})
		if _, err := s.Wait(ctx); err != nil {
			r.Cancel()
			return done, err
		}
		if _, err := r.Wait(ctx); err != nil {
			return done, err
		}
		if !bytes.Equal(buf, data) {
			return done, errWrong
		}
		time.Sleep(pause)
	}
	return rounds, nil
}

func overRPC(a, b *bubble.Host, round func(int) []byte) (done int, err error) {
	s, err := rpc.NewServer(rpc.ServerConfig{PeerTimeout: silence})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := s.Register("test", rpc.Func("echo", nil, func(_ context.Context, c *rpc.Call) error { return c.Encode(c.Body()) })); err != nil {
		return 0, err
	}
	at, err := s.ListenOn(b.Device, "127.0.0.3:0")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	c, err := rpc.Dial(ctx, at.String(), rpc.ClientConfig{Device: a.Device, PeerTimeout: silence, ReconnectTimeout: 5 * silence})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	m := c.Method("test/echo", nil)
	for done = range rounds {
		data := round(done)
		answer, err := m.Bytes(ctx, data, nil)
		if err != nil {
			return done, err
		}
		if !bytes.Equal(answer, data) {
			return done, errWrong
		}
		time.Sleep(pause)
	}
	return rounds, nil
}

func overRdmanet(a, b *bubble.Host, round func(int) []byte) (done int, err error) {
	asleep := rdmanet.Options{Spin: -1} // virtual time passes only while nothing polls
	lc := rdmanet.ListenConfig{Options: asleep, Device: b.Device}
	l, err := lc.Listen(context.Background(), "rdma", "127.0.0.3:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() { accepted <- echo(l) }()
	defer func() { <-accepted }()
	defer l.Close()
	d := rdmanet.Dialer{Options: asleep, Device: a.Device, LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.2:0"))}
	c, err := d.Dial("rdma", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeLimit))
	for done = range rounds {
		data := round(done)
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(data)
			wrote <- err
		}()
		buf := make([]byte, len(data))
		_, err := io.ReadFull(c, buf)
		if err != nil {
			_ = c.Close()
		}
		if e := <-wrote; err == nil {
			err = e
		}
		if err != nil {
			return done, err
		}
		if !bytes.Equal(buf, data) {
			return done, errWrong
		}
		time.Sleep(pause)
	}
	return rounds, nil
}

// echo sends what it receives back, until the connection ends.
func echo(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeLimit))
	_, err = io.Copy(c, c)
	return err
}
