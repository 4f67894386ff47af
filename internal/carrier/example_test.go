package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/waiting"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const echoLen = 1024 // bytes of a frame

var errEchoDone = errors.New("this end is done")

// An echo is one end of a connection of the echo protocol. The server sends each frame back. The client
// waits for it.
type echo struct {
	carrier.Plain
	waiting.Group
	e      *carrier.Engine
	domain *carrier.Domain
	server bool

	// The engine's lock guards the rest.
	conn   *carrier.Conn
	wait   waiting.Waiter // of the client for an answer
	answer string
}

func newEcho(dev *verbs.Device, server bool) (*echo, error) {
	e, err := carrier.NewEngine(dev, nil)
	if err != nil {
		return nil, err
	}
	p := &echo{Group: waiting.New(e), e: e, server: server}
	p.domain, err = carrier.NewDomain(e.First())
	return p, err
}

// Arrive takes a frame. Its bytes are valid until Arrive returns.
func (p *echo) Arrive(c *carrier.Conn, frame []byte, _ int) (keep bool, err error) {
	if !p.server {
		p.answer = string(frame)
		p.Signal(&p.wait)
		return false, nil
	}
	if b := c.Reserve(len(frame)); b != nil { // it can leave at once
		c.Commit(copy(b, frame))
	} else {
		c.Add(append([]byte(nil), frame...))
	}
	return false, nil
}

// Sent would be for frames in slots of the protocol. This one uses those of the connection.
func (*echo) Sent(*carrier.Conn, int) {}

// Failed ends the client's wait.
func (p *echo) Failed(*carrier.Conn) { p.Signal(&p.wait) }

// Released could free memory that the connection has used.
func (*echo) Released(*carrier.Conn) {}

// newConn makes a connection whose receives are posted.
func (p *echo) newConn(create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)) (*carrier.Conn, error) {
	return p.e.NewConn(carrier.ConnConfig{
		Owner: p, Domain: p.domain, Rail: p.e.First(), Receives: 8, Frame: echoLen, Slots: 8, Size: echoLen,
	}, create)
}

// start serves a connection that was established.
func (p *echo) start(c *carrier.Conn, cm *rdmacm.Conn, err error) error {
	if err != nil {
		c.Discard()
		return err
	}
	p.e.Lock()
	defer p.e.Unlock()
	p.conn = c
	c.Start(cm, nil) // frames without a receive are sent again: the protocol has no credits
	return nil
}

func (p *echo) dial(ctx context.Context, dev *verbs.Device, to string) error {
	d := rdmacm.Dialer{Device: dev, RemoteUDPPort: dev.Addr().Port()}
	ep, err := d.Resolve(ctx, to)
	if err != nil {
		return err
	}
	c, err := p.newConn(ep.CreateQP)
	if err != nil {
		return p.start(c, nil, err)
	}
	cm, err := ep.Connect(ctx, rdmacm.ConnParam{})
	return p.start(c, cm, err)
}

// serve accepts a connection and makes progress until ctx ends.
func (p *echo) serve(ctx context.Context, l *rdmacm.Listener) error {
	r, err := l.Request(ctx)
	if err != nil {
		return err
	}
	c, err := p.newConn(r.CreateQP)
	if err != nil {
		return p.start(c, nil, err)
	}
	cm, err := r.Accept(ctx, rdmacm.ConnParam{})
	if err := p.start(c, cm, err); err != nil {
		return err
	}
	p.e.Lock()
	defer p.e.Unlock()
	for never := (waiting.Waiter{}); ctx.Err() == nil; {
		p.Lead(ctx, &never)
	}
	return nil
}

// call sends a frame and waits for the answer.
func (p *echo) call(ctx context.Context, text string) (string, error) {
	p.e.Lock()
	defer p.e.Unlock()
	p.wait.Renew()
	p.conn.Add([]byte(text))
	p.e.Flush()
	if err := p.Await(ctx, &p.wait); err != nil {
		return "", err
	}
	return p.answer, p.conn.Err
}

// close ends the connection, and returns when no memory is in use.
func (p *echo) close() error {
	p.e.Lock()
	if p.conn != nil {
		p.conn.Fail(errEchoDone)
	}
	p.e.Unlock()
	err := p.e.Close()
	p.domain.Release()
	return err
}

func echoes(ctx context.Context, dev *verbs.Device) error {
	server, err := newEcho(dev, true)
	if err != nil {
		return err
	}
	client, err := newEcho(dev, false)
	if err != nil {
		return err
	}
	l, err := rdmacm.Listen("127.0.0.1:0", rdmacm.ListenConfig{Device: dev})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.serve(serving, l) }()
	if err = client.dial(ctx, dev, l.Addr().String()); err != nil {
		stop()
		return errors.Join(err, <-served)
	}
	for _, text := range []string{"hello", "and once more"} {
		answer, e := client.call(ctx, text)
		fmt.Println(answer)
		err = errors.Join(err, e)
	}
	err = errors.Join(err, client.close())
	stop()
	return errors.Join(err, <-served, server.close(), l.Close())
}

// An echo protocol on the carrier. Both ends are on one device here.
func Example() {
	dev, err := verbs.Open("127.0.0.1:4831", verbs.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dev.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := echoes(ctx, dev); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello
	// and once more
}
