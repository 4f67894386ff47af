package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"softrdma/verbs"
)

// serveAll accepts connections and closes each when its peer has closed it, until the listener
// is closed. The channel gets the first error other than that.
func serveAll(l *Listener) <-chan error {
	failed := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				if errors.Is(err, ErrClosed) {
					err = nil
				}
				failed <- err
				return
			}
			go func() {
				<-c.Done()
				_ = c.Close()
			}()
		}
	}()
	return failed
}

func TestThousandConnectionsLeaveNothing(t *testing.T) {
	const n = 1000
	leavesNothing(t)
	a, err := verbs.Open(deviceNamed(ip(21)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := verbs.Open(deviceNamed(ip(22)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	before := [2]any{a.Counts(), b.Counts()}
	l, err := Listen(ip(21)+":0", ListenConfig{Device: a})
	if err != nil {
		t.Fatal(err)
	}
	served := serveAll(l)
	// Half of them one after the other, half at the same time.
	var standing []*Conn
	for i := range n {
		c, err := Dial(within(t), l.Addr().String(), Dialer{Device: b})
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%2 == 0 {
			closed(t, c)
		} else {
			standing = append(standing, c)
		}
	}
	if q := b.Counts().QP; q != len(standing) {
		t.Errorf("queue pairs: expected %d, found %d", len(standing), q)
	}
	for _, c := range standing {
		closed(t, c)
	}
	eventually(t, "no objects left", func() bool { return before == [2]any{a.Counts(), b.Counts()} })
	closed(t, l)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// BenchmarkConnect measures the rate of set-up and tear-down by one client, one after the
// other, and by 16 at the same time: for RDMA between two devices of this process, and for the
// kernel's TCP over the loopback.
func BenchmarkConnect(b *testing.B) {
	b.Run("rdmacm", func(b *testing.B) {
		dev, err := verbs.Open(ip(22), verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer dev.Close()
		l, err := Listen(ip(21)+":0", ListenConfig{})
		if err != nil {
			b.Fatal(err)
		}
		served := serveAll(l)
		each(b, func() error {
			c, err := Dial(context.Background(), l.Addr().String(), Dialer{Device: dev})
			if err != nil {
				return err
			}
			return c.Close()
		})
		_ = l.Close()
		<-served
	})
	b.Run("tcp", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = c.Read(make([]byte, 1))
					_ = c.Close()
				}()
			}
		}()
		each(b, func() error {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			return c.Close()
		})
		_ = l.Close()
		<-done
	})
}

// each calls connect b.N times, by one goroutine and then by 16.
func each(b *testing.B, connect func() error) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := connect(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		})
	}
}
