package bench

import (
	"errors"
	"net"
	"os"
	"time"
)

// pourFlows bounds the connections of one measurement.
const pourFlows = 1024

// pour begins to send on all connections as much as they take, until close. The
// server's clock tells how long that is.
func (e *tcpEnd) pour() error {
	for range e.c.Flows {
		conn, err := e.dial()
		if err != nil {
			return err
		}
		conn.SetLinger(0) // what was not sent in time is not to be sent at all
		e.poured = append(e.poured, conn)
	}
	for _, conn := range e.poured {
		e.pouring.Go(func() {
			for buf, err := make([]byte, e.c.Bytes), error(nil); err == nil; {
				_, err = conn.Write(buf)
			}
		})
	}
	return nil
}

// drink takes what pour sends, and tells what came between the margins.
func (e *tcpEnd) drink() (taken, error) {
	conns := make([]net.Conn, e.c.Flows)
	for i := range conns {
		conn, err := e.l.Accept()
		if err != nil {
			return taken{}, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	start := time.Now()
	from, to := start.Add(seconds(e.c.Margin)), start.Add(e.c.duration()-seconds(e.c.Margin))
	type share struct {
		flow, bytes int
		err         error
	}
	shares := make(chan share, len(conns))
	for i, conn := range conns {
		conn.SetReadDeadline(to)
		go func() {
			s, buf := share{flow: i}, make([]byte, e.c.Bytes)
			for s.err == nil {
				var n int
				n, s.err = conn.Read(buf)
				if time.Now().After(from) {
					s.bytes += n
				}
			}
			shares <- s
		}()
	}
	t := taken{Shares: make([]float64, len(conns))}
	for range conns {
		s := <-shares
		if !errors.Is(s.err, os.ErrDeadlineExceeded) {
			return t, s.err
		}
		t.Shares[s.flow] = float64(s.bytes) * 8 / to.Sub(from).Seconds()
	}
	return t, nil
}
