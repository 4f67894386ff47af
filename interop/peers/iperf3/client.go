package iperf3

import (
	"crypto/rand"
	"net"
	"time"
)

// A Test holds the parameters that a client requests.
type Test struct {
	Time     time.Duration // whole seconds
	Parallel int           // streams; 0 means 1
	Reverse  bool          // the server sends
	Len      int           // bytes of a block; 0 means 128 KiB
}

// Run runs a test with the server that dial connects to.
func Run(dial func() (net.Conn, error), test Test) (Report, error) {
	var none Report
	if test.Parallel == 0 {
		test.Parallel = 1
	}
	if test.Len == 0 {
		test.Len = 128 << 10
	}
	var mine cookie
	copy(mine[:cookieLength-1], rand.Text()+rand.Text())
	conn, err := connect(dial, mine)
	if err != nil {
		return none, err
	}
	c := control{conn}
	defer c.Close()
	if err := c.expect(paramExchange, 0); err != nil {
		return none, err
	}
	p := parameters{
		TCP: true, Time: int(test.Time.Seconds()), Parallel: test.Parallel, Reverse: test.Reverse, Len: test.Len,
		PacingTimer: 1000, ClientVersion: "3.12",
	}
	if err := c.sendJSON(p); err != nil {
		return none, err
	}
	if err := c.expect(createStreams, 0); err != nil {
		return none, err
	}
	var conns []net.Conn
	defer func() { closeAll(conns) }()
	for range test.Parallel {
		s, err := connect(dial, mine)
		if err != nil {
			return none, err
		}
		conns = append(conns, s)
	}
	for _, s := range []state{testStart, testRunning} {
		if err := c.expect(s, 0); err != nil {
			return none, err
		}
	}
	return transferAndExchange(c, conns, test)
}

// transferAndExchange transfers data for the time of the test, then exchanges the results.
func transferAndExchange(c control, conns []net.Conn, test Test) (Report, error) {
	var none Report
	t := start(conns, !test.Reverse, test.Len)
	time.Sleep(test.Time)
	took := time.Since(t.began)
	t.end(!test.Reverse)
	if err := t.failed.Load(); err != nil {
		return none, wrap(*err, "transfer")
	}
	if err := c.sendState(testEnd); err != nil {
		return none, err
	}
	if err := c.expect(exchangeResults, 0); err != nil {
		return none, err
	}
	mine := t.results(took)
	if err := c.sendJSON(mine); err != nil {
		return none, err
	}
	var theirs results
	if err := c.receiveJSON(&theirs); err != nil {
		return none, err
	}
	if err := c.expect(displayResults, 0); err != nil {
		return none, err
	}
	if err := c.sendState(iperfDone); err != nil {
		return none, err
	}
	return report(test.Reverse, !test.Reverse, took, mine, theirs)
}

// connect opens a connection of the test and sends the cookie on it.
func connect(dial func() (net.Conn, error), mine cookie) (net.Conn, error) {
	conn, err := dial()
	if err != nil {
		return nil, wrap(err, "connect")
	}
	conn.SetWriteDeadline(time.Now().Add(timeLimit))
	if _, err := conn.Write(mine[:]); err != nil {
		conn.Close()
		return nil, wrap(err, "send the cookie")
	}
	conn.SetWriteDeadline(time.Time{})
	return conn, nil
}
