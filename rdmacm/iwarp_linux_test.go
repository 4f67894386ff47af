package rdmacm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"softrdma/verbs"
)

// TestIWARPIsTheSame runs the tests of connections once more, on iWARP devices:
// programs change nothing but the device.
func TestIWARPIsTheSame(t *testing.T) {
	testProtocol = verbs.IWARP
	defer func() { testProtocol = verbs.RoCE }()
	connectionTests(t)
}

// connectionTests runs the tests of what every device supports.
func connectionTests(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"AcceptConnectsBothWays", TestDialAcceptConnectsBothWays},
		{"DisconnectEndsBothSides", TestConnDisconnectEndsBothSides},
		{"CloseTellsPeer", TestConnCloseTellsPeer},
		{"PeerDisconnectFlushesPosted", TestConnPeerDisconnectFlushesPosted},
		{"CloseBusyPDTriesAgain", TestConnCloseBusyPDTriesAgain},
		{"StepsPostBeforeConnect", TestEndpointStepsPostBeforeConnect},
		{"ManyAtOnce", TestDialManyAtOnce},
		{"PortTakenRefused", TestListenPortTakenRefused},
		{"CloseEndsWaiting", TestListenerCloseEndsWaiting},
		{"NoListenerRejected", TestDialNoListenerRejected},
		{"RejectTellsPeer", TestRequestRejectTellsPeer},
		{"FullBacklogRejects", TestListenerFullBacklogRejects},
		{"ClientsGonePassedOver", TestListenerClientsGonePassedOver},
		{"PrivateDataTooLongRefused", TestPrivateDataTooLongRefused},
		{"AcceptPrivateDataTooLongRefused", TestAcceptPrivateDataTooLongRefused},
		{"ContextEndsDialWaitingForReply", TestContextEndsDialWaitingForReply},
		{"ContextEndsAcceptWithoutPeers", TestContextEndsAcceptWithoutPeers},
		{"DeviceClosedEndsIt", TestConnDeviceClosedEndsIt},
		{"ListenerDeviceClosedEndsIt", TestListenerDeviceClosedEndsIt},
		{"EndpointOnClosedDeviceTellsSo", TestEndpointOnClosedDeviceFails},
		{"RequestOnClosedDevicePassedOver", TestListenerRequestOnClosedDevicePassedOver},
		{"RejectedBeforeItIsTakenHasEnded", TestConnRejectedBeforeItIsTakenHasEnded},
		{"ThousandConnectionsLeaveNothing", TestThousandConnectionsLeaveNothing},
	} {
		t.Run(c.name, c.test)
	}
}

func TestIWARPHasNoDatagrams(t *testing.T) {
	leavesNothing(t)
	_, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP, PortSpace: PortSpaceUDP})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("listener: %v", err)
	}
	d := Dialer{Protocol: verbs.IWARP}
	if _, _, err := d.Lookup(within(t), serverIP+":7"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("lookup: %v", err)
	}
}

func TestIWARPWildcardTakesLoopback(t *testing.T) {
	leavesNothing(t)
	l, err := Listen(":0", ListenConfig{Protocol: verbs.IWARP, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	server := accepted(t, l)
	c, err := Dial(within(t), fmt.Sprintf("127.0.0.1:%d", l.Addr().Port()), Dialer{Protocol: verbs.IWARP, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	s := server()
	defer closed(t, s)
	talk(t, c, s, "to any listener")
}

// Peers that connect by TCP and send nothing, or nonsense, do not delay other peers.
func TestIWARPSilentPeersPassedOver(t *testing.T) {
	leavesNothing(t)
	testProtocol = verbs.IWARP
	defer func() { testProtocol = verbs.RoCE }()
	l := listen(t, ListenConfig{})
	for i := range 8 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n")
		}
	}
	c, s := connected(t, l, client())
	talk(t, c, s, "beside the silent")
}

// A peer that never answers is unreachable after the configured time.
func TestIWARPSilentServerUnreachable(t *testing.T) {
	leavesNothing(t)
	silent, err := net.Listen("tcp", serverIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := Dialer{Protocol: verbs.IWARP, ResponseTimeout: 8, Retries: 1} // 2 ms
	_, err = d.Dial(within(t), silent.Addr().String())
	var late *UnreachableError
	if !errors.As(err, &late) {
		t.Errorf("expected an *UnreachableError, found %v", err)
	}
}

const iwarpVictimEnv = "SOFTRDMA_IWARP_VICTIM"

// TestIWARPVictim is the process that is killed.
func TestIWARPVictim(t *testing.T) {
	if os.Getenv(iwarpVictimEnv) == "" {
		t.Skip("the second process of TestIWARPKilledPeerEndsConnection, which starts it")
	}
	l, err := Listen(os.Getenv(iwarpVictimEnv)+":0", ListenConfig{Protocol: verbs.IWARP})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	if _, err := l.Accept(context.Background()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
}

func TestIWARPKilledPeerEndsConnection(t *testing.T) {
	leavesNothing(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestIWARPVictim$")
	cmd.Env = append(os.Environ(), iwarpVictimEnv+"="+serverIP)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	in := bufio.NewScanner(out)
	if !in.Scan() {
		t.Fatal("the second process printed no address")
	}
	c, err := Dial(within(t), in.Text(), Dialer{Protocol: verbs.IWARP, Local: addr(clientIP, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ended(t, c, ErrDisconnected)
	if st := c.QP().State(); st != verbs.Err {
		t.Errorf("queue pair in %v", st)
	}
}

// TestIWARPConnectionSaysThatItsPeerWasSilent stops the path to the peer. The connection ends, but the peer has not ended it.
func TestIWARPConnectionSaysThatItsPeerWasSilent(t *testing.T) {
	leavesNothing(t)
	ctx := within(t)
	l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path, err := net.Listen("tcp", serverIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	var near, far net.Conn
	relayed := make(chan error, 1)
	cut := make(chan struct{})
	go func() { // forwards until it is cut, and keeps both connections open then
		var err error
		if near, err = path.Accept(); err == nil {
			far, err = net.Dial("tcp", l.Addr().String())
		}
		relayed <- err
		if err != nil {
			return
		}
		forward := func(to, from net.Conn) {
			b := make([]byte, 1<<12)
			for {
				n, err := from.Read(b)
				select {
				case <-cut:
					return
				default:
				}
				if _, werr := to.Write(b[:n]); err != nil || werr != nil {
					return
				}
			}
		}
		go forward(far, near)
		forward(near, far)
	}()
	accepted := make(chan *Conn, 1)
	go func() {
		r, err := l.Request(ctx)
		if err != nil {
			accepted <- nil
			return
		}
		c, _ := r.Accept(ctx, ConnParam{})
		accepted <- c
	}()
	c, err := Dial(ctx, path.Addr().String(), Dialer{
		Protocol: verbs.IWARP, QP: verbs.QPConfig{PeerTimeout: 300 * time.Millisecond, PeerProbe: 100 * time.Millisecond},
	})
	if err = errors.Join(err, <-relayed); err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	peer := <-accepted
	if peer == nil {
		t.Fatal("the server has no connection")
	}
	close(cut)
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Fatal("the connection has not ended")
	}
	var why verbs.ReasonError
	if err := c.Err(); !errors.Is(err, ErrDisconnected) || !errors.As(err, &why) || why.Reason() != "PEER_SILENT" {
		t.Errorf("found %v", err)
	}
	_, _ = c.Close(), peer.Close()
}
