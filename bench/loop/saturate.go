package loop

import (
	"errors"
	"net"
	"os"
	"time"
)

// saturate starts to send as much as possible on all connections, until close. The
// server measures the time.
func (e *streamEnd) saturate() error {
	for range e.c.Flows {
		conn, err := e.dial()
		if err != nil {
			return err
		}
		conn.SetLinger(0) // on close, discard unsent data
		e.conns = append(e.conns, conn)
	}
	for _, conn := range e.conns {
		e.writers.Go(func() {
			for buf, err := make([]byte, e.c.Bytes), error(nil); err == nil; {
				_, err = conn.Write(buf)
			}
		})
	}
	return nil
}

// receiveAll receives what saturate sends, and returns the rate of each connection
// between the margins.
func (e *streamEnd) receiveAll() (received, error) {
	conns := make([]net.Conn, e.c.Flows)
	for i := range conns {
		conn, err := e.l.Accept()
		if err != nil {
			return received{}, err
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
	t := received{Shares: make([]float64, len(conns))}
	for range conns {
		s := <-shares
		if !errors.Is(s.err, os.ErrDeadlineExceeded) {
			return t, s.err
		}
		t.Shares[s.flow] = float64(s.bytes) * 8 / to.Sub(from).Seconds()
	}
	return t, nil
}
