package rdmanet

import (
	"io"
	"net"
	"testing"
	"time"
)

// Each benchmark runs over a pair of connections in this process and, for
// comparison, over the kernel's TCP on the same loopback interface.
func transports(b *testing.B, f func(b *testing.B, x, y net.Conn)) {
	for name, spin := range map[string]time.Duration{"polling": 0, "sleeping": -1} {
		b.Run("rdmanet-"+name, func(b *testing.B) {
			x, y := pair(b, Options{Spin: spin})
			f(b, x, y)
		})
	}
	b.Run("tcp", func(b *testing.B) {
		x, y := tcpPair(b)
		f(b, x, y)
	})
}

func tcpPair(b *testing.B) (x, y net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if x, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if y, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

// BenchmarkPingPong64B measures the round trip of a message of 64 bytes.
func BenchmarkPingPong64B(b *testing.B) {
	transports(b, func(b *testing.B, x, y net.Conn) {
		done := make(chan error, 1)
		go func() {
			p := make([]byte, 64)
			for {
				if _, err := io.ReadFull(y, p); err != nil {
					done <- err
					return
				}
				if _, err := y.Write(p); err != nil {
					done <- err
					return
				}
			}
		}()
		p := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := x.Write(p); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(x, p); err != nil {
				b.Fatal(err)
			}
		}
		x.Close()
		<-done
	})
}

// BenchmarkStream1MiB measures writes of 1 MiB that are read 64 KiB at a time.
func BenchmarkStream1MiB(b *testing.B) {
	transports(b, func(b *testing.B, x, y net.Conn) {
		done := make(chan int64, 1)
		go func() {
			var total int64
			p := make([]byte, 64<<10)
			for {
				n, err := y.Read(p)
				total += int64(n)
				if err != nil {
					done <- total
					return
				}
			}
		}()
		p := make([]byte, 1<<20)
		b.SetBytes(int64(len(p)))
		b.ReportAllocs()
		n := int64(0)
		for b.Loop() {
			if _, err := x.Write(p); err != nil {
				b.Fatal(err)
			}
			n++
		}
		x.Close()
		if got := <-done; got != n<<20 {
			b.Fatalf("%d bytes arrived, expected %d", got, n<<20)
		}
	})
}
