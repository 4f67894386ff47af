// Relay is a plain TCP relay between the two ends of an iWARP connection that breaks each
// connection. It resets both sides once a number of bytes, counted over both directions, has
// passed. iWARP carries no addresses of its own, so neither end notices the relay.
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

// serve relays connections until listening fails.
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

// relay relays one connection until it is cut or both sides have closed it.
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
	for _, direction := range [][2]*net.TCPConn{{c, p}, {p, c}} {
		both.Go(func() {
			if _, err := io.Copy(direction[1], &counted{direction[0], r}); errors.Is(err, errCut) {
				for _, x := range direction {
					_ = x.SetLinger(0) // Close resets the connection
					_ = x.Close()
				}
				return
			}
			_ = direction[1].CloseWrite() // fails if the connection is gone
		})
	}
	both.Wait()
	return nil
}

var errCut = errors.New("cut off")

// A budget is the number of bytes that a connection may still carry.
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

// counted reads from a connection until the budget is used up, then returns errCut.
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
