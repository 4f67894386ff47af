package iperf3

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxParallel is the largest number of streams that iperf3 allows.
const maxParallel = 128

// Serve runs one test with the first client that connects to l.
func Serve(l net.Listener) (Report, error) {
	conn, err := l.Accept()
	if err != nil {
		return Report{}, wrap(err, "accept the control connection")
	}
	c := control{conn}
	defer c.Close()
	r, err := serve(l, c)
	if err != nil {
		c.sendState(serverTerminate)
	}
	return r, err
}

func serve(l net.Listener, c control) (Report, error) {
	var none Report
	var mine cookie
	c.SetReadDeadline(time.Now().Add(timeLimit))
	if _, err := io.ReadFull(c, mine[:]); err != nil {
		return none, wrap(err, "receive the cookie")
	}
	if err := c.sendState(paramExchange); err != nil {
		return none, err
	}
	var p parameters
	if err := c.receiveJSON(&p); err != nil {
		return none, err
	}
	if p.UDP || p.Bidirectional || p.Omit != 0 || p.Len < 1 || p.Len > 1<<24 || p.Parallel < 1 || p.Parallel > maxParallel {
		return none, fmt.Errorf("iperf3: the client wants %+v, which is more than streams one way", p)
	}
	if err := c.sendState(createStreams); err != nil {
		return none, err
	}
	conns, err := acceptStreams(l, mine, p.Parallel)
	if err != nil {
		return none, err
	}
	for _, s := range []state{testStart, testRunning} {
		if err := c.sendState(s); err != nil {
			closeAll(conns)
			return none, err
		}
	}
	t := start(conns, p.Reverse, p.Len)
	defer t.close()
	if err := c.expect(testEnd, time.Duration(p.Time)*time.Second); err != nil {
		return none, err
	}
	took := time.Since(t.began)
	t.close()
	if err := t.failed.Load(); err != nil && !errors.Is(*err, io.EOF) {
		return none, wrap(*err, "transfer")
	}
	return exchange(c, t, p.Reverse, took)
}

// exchange exchanges the results as a server does.
func exchange(c control, t *transfer, reverse bool, took time.Duration) (Report, error) {
	var theirs results
	mine := t.results(took)
	if err := c.sendState(exchangeResults); err != nil {
		return Report{}, err
	}
	if err := c.receiveJSON(&theirs); err != nil {
		return Report{}, err
	}
	if err := c.sendJSON(mine); err != nil {
		return Report{}, err
	}
	if err := c.sendState(displayResults); err != nil {
		return Report{}, err
	}
	if err := c.expect(iperfDone, 0); err != nil {
		return Report{}, err
	}
	return report(reverse, reverse, took, mine, theirs)
}

// acceptStreams accepts the data connections and checks the cookie of each.
func acceptStreams(l net.Listener, want cookie, n int) (conns []net.Conn, err error) {
	defer func() {
		if err != nil {
			closeAll(conns)
		}
	}()
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now().Add(timeLimit))
		defer d.SetDeadline(time.Time{})
	}
	for range n {
		s, err := l.Accept()
		if err != nil {
			return conns, wrap(err, "accept a stream")
		}
		conns = append(conns, s)
		var got cookie
		s.SetReadDeadline(time.Now().Add(timeLimit))
		if _, err := io.ReadFull(s, got[:]); err != nil {
			return conns, wrap(err, "receive a stream's cookie")
		}
		s.SetReadDeadline(time.Time{})
		if got != want {
			return conns, errors.New("iperf3: a stream has another cookie than the control connection")
		}
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}
