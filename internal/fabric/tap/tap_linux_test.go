package tap

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link"
	"softrdma/internal/link/fabric"
)

// The system's sockets and a program at another host reach each other.
func TestSystemIsAHostOfTheFabric(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: network namespaces and tap devices need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	f := fabrictest.StartEthernet(t, "fat-tree:k=4", func(*live.Config) {})
	ctx, cancel := context.WithCancel(context.Background())
	sockets, ended := make(chan []*net.UDPConn, 1), make(chan error, 1)
	go func() { // the thread of the namespace ends with the goroutine
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ended <- err
			return
		}
		ended <- Run(ctx, f.Adapters[0], "tap0", false, func(i *attach.Info) {
			var list []*net.UDPConn
			for _, a := range i.Addrs {
				if a.Is6() && !hasIPv6("tap0") {
					continue
				}
				c, err := net.ListenUDP("udp", &net.UDPAddr{IP: a.AsSlice(), Port: 4791})
				if err != nil {
					t.Error(err)
				}
				list = append(list, c)
			}
			sockets <- list
		})
	}()
	select {
	case list := <-sockets:
		p := f.AttachHost(15)
		reachEachOther(t, list[0], p)
		if len(list) > 1 {
			p6, err := attach.OpenService(t.Context(), "test/"+p.Info().Addrs[1].String(), hostport.Datagrams, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p6.Close()
			reachEachOther(t, list[1], p6)
		}
		for _, c := range list {
			_ = c.Close()
		}
	case err := <-ended:
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func reachEachOther(t *testing.T, c *net.UDPConn, p *attach.Port) {
	t.Helper()
	program := fabric.NewDatagrams(p.Link(), netip.AddrPortFrom(p.Info().Addrs[0], 4791))
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.WriteToUDPAddrPort([]byte("from the system"), program.Local()); err != nil {
		t.Fatal(err)
	}
	var rx link.Rx
	fabrictest.WaitFor(t, "a datagram of the system", func() bool {
		ok, err := program.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	if string(rx.Data) != "from the system" {
		t.Errorf("%q", rx.Data)
	}
	flow, err := program.Reply(rx.Src)
	if err != nil {
		t.Fatal(err)
	}
	answer := []byte("from a program")
	if err := program.Send(&link.Tx{Pieces: [][]byte{answer}, Bytes: len(answer), Size: len(answer), Flow: &flow.Flow}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, from, err := c.ReadFromUDPAddrPort(b)
	if err != nil || string(b[:n]) != string(answer) || from != program.Local() {
		t.Errorf("%q from %v, %v", b[:n], from, err)
	}
}
