package longpath

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"softrdma/internal/simnet/bubble"
	"softrdma/rdmanet"
)

// A longPath is a path on which one stream is measured, on virtual time.
type longPath struct {
	rate  int64
	trip  time.Duration
	loss  float64
	write int // bytes of a Write; 0 means ReadFrom
	head  int // bytes of a Write before ReadFrom
	body  int // rpc's MaxBody at both ends
}

// blocking options do not poll, as time passes only while all wait.
var blocking = rdmanet.Options{Spin: -1}

// A zeros is a file of n zeros.
type zeros struct{ n int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	k := min(int64(len(b)), z.n)
	z.n -= k
	return int(k), nil
}

// goodput returns the part of the line that one stream of n bytes fills, from its first third on,
// and its seconds in all.
func (p *longPath) goodput(t *testing.T, n int64) (part, took float64) {
	p.devices(t, func(t *testing.T, hosts [2]*bubble.Host) {
		l, err := (&rdmanet.ListenConfig{Options: blocking, Device: hosts[1].Device}).Listen(t.Context(), "rdma", "127.0.0.3:7000")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		sent := make(chan error, 1)
		go func() {
			c, err := (&rdmanet.Dialer{Options: blocking, Device: hosts[0].Device}).DialContext(t.Context(), "rdma", "127.0.0.3:7000")
			if err != nil {
				sent <- err
				return
			}
			if p.write == 0 {
				_, err = c.Write(make([]byte, p.head))
				if err == nil {
					_, err = c.(*rdmanet.Conn).ReadFrom(&zeros{n - int64(p.head)})
				}
			} else {
				buf := make([]byte, p.write)
				for left := n; left > 0 && err == nil; left -= int64(len(buf)) {
					_, err = c.Write(buf[:min(int64(len(buf)), left)])
				}
			}
			if err == nil {
				err = c.Close()
			}
			sent <- err
		}()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		if _, err := io.CopyN(io.Discard, c, n/3); err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		if k, err := io.Copy(io.Discard, c); err != nil || k != n-n/3 {
			t.Fatal(k, err)
		}
		part = float64(n-n/3) * 8 / time.Since(from).Seconds() / float64(p.rate)
		took = time.Since(start).Seconds()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	})
	return part, took
}

// TestStreamFillsLongPath checks that the buffers of a stream follow the path: with 1 MiB, the
// size at the start, it would carry a tenth of the line at 100 ms.
func TestStreamFillsLongPath(t *testing.T) {
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	const short, long = 20 * time.Millisecond, 100 * time.Millisecond
	for _, c := range []struct {
		path longPath
		part float64
	}{
		{longPath{rate: 500e6, trip: short}, .85},
		{longPath{rate: 500e6, trip: long}, .85},
		{longPath{rate: 500e6, trip: long, loss: .01}, .8},
		{longPath{rate: 500e6, trip: long, loss: .01, head: 40}, .8}, // messages that are cut at the ends of pieces
		{longPath{rate: 500e6, trip: long, write: 64 << 10}, .85},
	} {
		part, took := c.path.goodput(t, int64(float64(c.path.rate)/8*c.path.trip.Seconds()*20))
		t.Logf("%+v: %.3f of the line, %.2f s in all", c.path, part, took)
		if part < c.part {
			t.Errorf("%+v: %.3f of the line, expected %.2f", c.path, part, c.part)
		}
	}
}

// TestStreamFillsFastLongPath measures paths of 10 Gbit/s, which takes a minute.
func TestStreamFillsFastLongPath(t *testing.T) {
	if os.Getenv("SOFTRDMA_LONG_PATHS") == "" {
		t.Skip("SOFTRDMA_LONG_PATHS is not set: moves gigabytes")
	}
	for _, p := range []longPath{
		{rate: 10e9, trip: 20 * time.Millisecond},
		{rate: 10e9, trip: 20 * time.Millisecond, loss: .01},
		{rate: 10e9, trip: 100 * time.Millisecond},
	} {
		part, took := p.goodput(t, int64(float64(p.rate)/8*p.trip.Seconds()*24))
		t.Logf("%+v: %.3f of the line, %.2f s in all", p, part, took)
	}
}

// TestIdleStreamGivesItsBuffersBack checks that a connection which is open and idle keeps the memory that it
// began with, at both ends, and that the stream continues afterwards.
func TestIdleStreamGivesItsBuffersBack(t *testing.T) {
	p := longPath{rate: 500e6, trip: 100 * time.Millisecond}
	p.devices(t, func(t *testing.T, hosts [2]*bubble.Host) {
		c, s := connect(t, hosts)
		first := regions(hosts)
		for range 2 {
			if err := transfer(c, s, 40<<20); err != nil {
				t.Fatal(err)
			}
			if full := regions(hosts); full[0] <= first[0] || full[1] <= first[1] {
				t.Errorf("%d regions before the transfer, %d after it: the buffers have not grown", first, full)
			}
			time.Sleep(6 * rdmanet.DefaultKeepAlive)
			if idle := regions(hosts); idle != first {
				t.Errorf("%d regions at the beginning, %d when idle", first, idle)
			}
		}
	})
}

// TestStreamKeepsItsBuffersForSomeRoundTrips has keep-alives follow each other faster than round trips: the buffers are kept
// for some of those, as the pause may be one of the program's.
func TestStreamKeepsItsBuffersForSomeRoundTrips(t *testing.T) {
	const n, often = 20 << 20, 50 * time.Millisecond
	p := longPath{rate: 500e6, trip: 100 * time.Millisecond}
	p.devices(t, func(t *testing.T, hosts [2]*bubble.Host) {
		c, s := connect(t, hosts)
		first := regions(hosts)
		if err := transfer(c, s, n); err != nil {
			t.Fatal(err)
		}
		for _, x := range []net.Conn{c, s} {
			if err := x.(*rdmanet.Conn).SetKeepAlivePeriod(often); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * p.trip)
		if now := regions(hosts); now[0] <= first[0] || now[1] <= first[1] {
			t.Errorf("%d regions four round trips after a transfer, %d at the beginning", now, first)
		}
		time.Sleep(40 * p.trip)
		if now := regions(hosts); now != first {
			t.Errorf("%d regions a while later, %d at the beginning", now, first)
		}
	})
}

// connect connects two hosts.
func connect(t *testing.T, hosts [2]*bubble.Host) (client, server net.Conn) {
	t.Helper()
	l, err := (&rdmanet.ListenConfig{Options: blocking, Device: hosts[1].Device}).Listen(t.Context(), "rdma", "127.0.0.3:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = (&rdmanet.Dialer{Options: blocking, Device: hosts[0].Device}).DialContext(t.Context(), "rdma", "127.0.0.3:7000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// regions returns how many regions of memory the device of each host has.
func regions(hosts [2]*bubble.Host) (n [2]int) {
	for i, h := range hosts {
		n[i] = h.Device.Counts().MR
	}
	return n
}

// transfer moves n bytes over a connection.
func transfer(c, s net.Conn, n int64) error {
	sent := make(chan error, 1)
	go func() {
		_, err := c.(*rdmanet.Conn).ReadFrom(&zeros{n})
		sent <- err
	}()
	_, err := io.CopyN(io.Discard, s, n)
	return errors.Join(err, <-sent)
}
