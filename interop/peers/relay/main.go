// Relay stands between the two ends of an iWARP connection as a plain TCP relay, and cuts each connection off in the
// middle: behind a number of bytes, of both directions together, it resets both sides. iWARP carries no addresses of its
// own, so that neither end knows of it.
//
//	relay -l 10.78.0.9:28515 -a 10.78.0.2:28515 -cut 200000
//
// It runs until it is killed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

func main() {
	listen := flag.String("l", "", "address and port to listen on")
	addr := flag.String("a", "", "address and port of the peer")
	cut := flag.Int("cut", 0, "bytes behind which a connection is reset")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "relay:", serve(*listen, *addr, *cut))
	os.Exit(1)
}

// serve carries connections until something fails.
func serve(listen, addr string, cut int) error {
	if cut <= 0 {
		return fmt.Errorf("-cut is %d, expected a number of bytes", cut)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := relay(c.(*net.TCPConn), addr, cut); err != nil {
				fmt.Fprintln(os.Stderr, "relay:", err)
			}
		}()
	}
}

// relay carries one connection until it is cut, or has ended on both sides.
func relay(c *net.TCPConn, addr string, cut int) error {
	defer c.Close()
	peer, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	p := peer.(*net.TCPConn)
	defer p.Close()
	r := &budget{left: cut}
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{c, p}, {p, c}} {
		both.Go(func() {
			if _, err := io.Copy(way[1], &counted{way[0], r}); errors.Is(err, errCut) {
				for _, x := range way {
					_ = x.SetLinger(0) // a close is a reset
					_ = x.Close()
				}
				return
			}
			_ = way[1].CloseWrite() // refused where it has gone
		})
	}
	both.Wait()
	return nil
}

var errCut = errors.New("cut off")

// A budget is how many bytes a connection may still carry.
type budget struct {
	mu   sync.Mutex
	left int
}

func (b *budget) take(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.left)
	b.left -= n
	return n
}

// counted reads as long as the budget lasts.
type counted struct {
	from   io.Reader
	budget *budget
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	if k := c.budget.take(n); k < n || n > 0 && k == 0 {
		return k, errCut
	}
	return n, err
}
