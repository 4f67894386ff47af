// Peer is one end of the verbs exerciser over softrdma: the counterpart of ../testdata/verbs_peer.py, with the same
// command line, messages, scenarios and results. ../README.md is the protocol.
//
//	peer --role server --dev 10.77.0.1 --listen 10.77.0.1 --port 18515
//	peer --role client --dev 10.77.0.1 --connect 10.77.0.2 --port 18515 --scenario rc_send_1,ud_send_1
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"softrdma/interop/peers/exerciser"
	"softrdma/verbs"
)

// timeLimit bounds the wait for a message of the peer.
const timeLimit = 60 * time.Second

// acceptTimeLimit bounds the wait for a client. The Python implementation takes long to start.
const acceptTimeLimit = 5 * time.Minute

type options struct {
	role     string
	dev      string
	listen   string
	connect  string
	cmVia    string
	port     int
	mtu      int
	scenario string
}

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "client or server")
	flag.StringVar(&o.dev, "dev", "", "the device: a local address or a network interface")
	flag.Int("gid-index", 0, "taken for likeness with verbs_peer.py; a device has one GID that connections use")
	flag.StringVar(&o.listen, "listen", "0.0.0.0", "where the server listens")
	flag.StringVar(&o.connect, "connect", "127.0.0.1", "where the client connects to")
	flag.StringVar(&o.cmVia, "cm-via", "", "where the client's connection manager connects to, instead of the server")
	flag.IntVar(&o.port, "port", 18515, "the TCP port")
	flag.IntVar(&o.mtu, "mtu", 1024, "path MTU where the scenario does not say")
	flag.StringVar(&o.scenario, "scenario", "all", "names with commas between, or all; the server runs what the client names")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.role != exerciser.Client && o.role != exerciser.Server {
		return fmt.Errorf("--role is %q, not client or server", o.role)
	}
	device, err := verbs.Open(o.dev, verbs.Config{})
	if err != nil {
		return err
	}
	defer device.Close()
	p, err := newPeer(o, device, os.Stdout, os.Stderr)
	if err != nil {
		return err
	}
	if p.cm != nil {
		defer p.cm.close()
	}
	if o.role == exerciser.Server {
		return p.serve()
	}
	names := p.names
	if o.scenario != "all" {
		names = strings.Split(o.scenario, ",")
	}
	return p.call(names)
}

type peer struct {
	options
	device    *verbs.Device
	pd        *verbs.PD
	cm        *manager // nil unless the device is iWARP
	scenarios map[string]*exerciser.Scenario
	names     []string // the scenarios that the device's protocol supports
	results   *json.Encoder
	log       io.Writer
}

func newPeer(o options, device *verbs.Device, out, log io.Writer) (*peer, error) {
	all, err := exerciser.Scenarios()
	if err != nil {
		return nil, err
	}
	pd, err := device.AllocPD()
	if err != nil {
		return nil, err
	}
	p := &peer{options: o, device: device, pd: pd, scenarios: map[string]*exerciser.Scenario{}, results: json.NewEncoder(out), log: log}
	plays := func(s *exerciser.Scenario) bool { return !s.OnlyIWARP() }
	if device.Protocol() == verbs.IWARP {
		plays = (*exerciser.Scenario).OverIWARP
		if p.cm, err = newManager(device, o.port, o.role == exerciser.Server); err != nil {
			return nil, err
		}
	}
	for i := range all {
		p.scenarios[all[i].Name] = &all[i]
		if plays(&all[i]) {
			p.names = append(p.names, all[i].Name)
		}
	}
	return p, nil
}

func (p *peer) serve() error {
	l, err := net.Listen("tcp", net.JoinHostPort(p.listen, strconv.Itoa(p.port)))
	if err != nil {
		return err
	}
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(acceptTimeLimit))
	fmt.Printf("{\"listening\": %d}\n", p.port)
	c, err := l.Accept()
	if err != nil {
		return err
	}
	return p.answer(c)
}

// answer runs the scenarios that the client names until it closes the connection.
func (p *peer) answer(c net.Conn) error {
	defer c.Close()
	for w := newWire(c); ; {
		var hello exerciser.Hello
		if err := w.receive(&hello); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s := p.scenarios[hello.Scenario]
		if s == nil {
			if err := w.send(exerciser.Hello{Scenario: hello.Scenario, Error: "no scenario is named " + hello.Scenario}); err != nil {
				return err
			}
			continue
		}
		if err := p.one(w, s, &hello); err != nil {
			return err
		}
	}
}

func (p *peer) call(names []string) error {
	address := net.JoinHostPort(p.connect, strconv.Itoa(p.port))
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	for deadline := time.Now().Add(timeLimit); err != nil; c, err = net.DialTimeout("tcp", address, 5*time.Second) {
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	defer c.Close()
	w := newWire(c)
	for _, name := range names {
		s := p.scenarios[name]
		if s == nil {
			return fmt.Errorf("no scenario is named %s", name)
		}
		if err := p.one(w, s, nil); err != nil {
			return err
		}
	}
	return nil
}

// one runs a scenario. hello is the peer's hello, or nil if it has not been received yet.
func (p *peer) one(w *wire, s *exerciser.Scenario, hello *exerciser.Hello) error {
	began := time.Now()
	e, err := p.openEnd(w, s)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	result, err := e.run(hello)
	ended := time.Now()
	if err := errors.Join(err, e.close()); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	fmt.Fprintf(p.log, "%s: %.2f s, closed in %.2f s\n", s.Name, ended.Sub(began).Seconds(), time.Since(ended).Seconds())
	return p.results.Encode(result)
}

// wire exchanges messages with the peer: JSON values, one per line.
type wire struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func newWire(c net.Conn) *wire {
	return &wire{conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}
}

func (w *wire) send(message any) error { return w.out.Encode(message) }

func (w *wire) receive(message any) error {
	w.conn.SetReadDeadline(time.Now().Add(timeLimit))
	return w.in.Decode(message)
}
