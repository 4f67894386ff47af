package rdmacm

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/daemontest"
	"softrdma/verbs"
)

// TestDaemonsDevicesAreTheSame runs the tests of connections once more, on
// devices of a daemon: programs change nothing but the device.
func TestDaemonsDevicesAreTheSame(t *testing.T) {
	onDaemon(t, verbs.RoCE)
	connectionTests(t)
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"BothEndsInOneDevice", TestDialBothEndsInOneDevice},
		{"DeviceAndOtherLocalRefused", TestDialDeviceAndOtherLocalRefused},
		{"ClosedDeviceRefused", TestDialClosedDeviceRefused},
		{"NoDeviceRefused", TestDialNoDeviceRefused},
		{"SilentPeerUnreachable", TestDialSilentPeerUnreachable},
		{"ContextEndedBeforeDialSendsNothing", TestContextEndedBeforeDialSendsNothing},
		{"ContextEndsRequestAcceptWithoutConfirmation", TestContextEndsRequestAcceptWithoutConfirmation},
		{"AcceptGoesOnBesideSilentPeer", TestListenerAcceptGoesOnBesideSilentPeer},
		{"ContextEndsLookup", TestContextEndsLookup},
		{"ContextEndsChannelNext", TestContextEndsChannelNext},
		{"LookupFindsQueuePair", TestLookupFindsQueuePair},
		{"LookupRejected", TestLookupRejected},
		{"LookupPrivateDataTooLongRefused", TestLookupPrivateDataTooLongRefused},
		{"DialDatagramsRefused", TestDialDatagramsRefused},
		{"LookupEvents", TestIDLookupEvents},
		{"MulticastJoinDelivers", TestMulticastJoinDelivers},
		{"MulticastEventHasContext", TestIDMulticastEventHasContext},
		{"ConnectAcceptDisconnectEvents", TestIDConnectAcceptDisconnectEvents},
		{"RejectEvent", TestIDRejectEvent},
		{"RejectedAfterResponse", TestIDRejectedAfterResponse},
		{"AnswersPeerThatLeavesAsWell", TestConnAnswersPeerThatLeavesAsWell},
		{"WithoutQPEstablishes", TestIDWithoutQPEstablishes},
		{"NotifyEstablishesWithoutConfirmation", TestIDNotifyEstablishesWithoutConfirmation},
		{"EstablishWithQPRefused", TestIDEstablishWithQPRefused},
		{"MigrateTakesEventsAlong", TestIDMigrateTakesEventsAlong},
		{"CallsOutOfOrderRefused", TestIDCallsOutOfOrderRefused},
		{"ResolveUnspecifiedRefused", TestIDResolveUnspecifiedRefused},
		{"QPOfOtherDeviceRefused", TestIDQPOfOtherDeviceRefused},
		{"SRQServesConnection", TestIDSRQServesConnection},
		{"CloseDestroysUntakenRequests", TestChannelCloseDestroysUntakenRequests},
		{"DestroyedIDsEventsDropped", TestChannelDestroyedIDsEventsDropped},
		{"UnconnectedServiceOfIB", TestIDUnconnectedServiceOfIB},
		{"DeviceClosedEvent", TestIDDeviceClosedEvent},
		{"DeviceClosedAfterResponse", TestIDDeviceClosedAfterResponse},
		{"OptionsChecked", TestIDOptionsChecked},
		{"OptionsReachQueuePair", TestIDOptionsReachQueuePair},
		{"ReuseAddrSharesPort", TestIDReuseAddrSharesPort},
	} {
		t.Run(c.name, c.test)
	}
}

// TestDaemonsIWARPDevicesAreTheSame runs them on iWARP devices of a daemon.
func TestDaemonsIWARPDevicesAreTheSame(t *testing.T) {
	onDaemon(t, verbs.IWARP)
	connectionTests(t)
}

// TestDaemonProcess is the daemon of these tests.
func TestDaemonProcess(t *testing.T) { daemontest.Serve(t) }

// A testServer is a daemon, with the devices of its that are open here.
type testServer struct {
	*daemontest.Process
	prefix string
	served map[string]*verbs.Device
}

func startDaemon(t testing.TB, p verbs.Protocol, ips ...string) *testServer {
	t.Helper()
	d := &testServer{served: make(map[string]*verbs.Device)}
	if p == verbs.IWARP {
		d.prefix = "iwarp:"
	}
	var names []string
	for _, ip := range ips {
		names = append(names, d.prefix+ip)
	}
	d.Process = daemontest.Start(t, names...)
	return d
}

func (d *testServer) name(ip string) string { return d.Name(d.prefix + ip) }

// open opens a device that stays open until the test ends.
func (d *testServer) open(t testing.TB, ip string) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(d.name(ip), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, dev) })
	d.served[ip] = dev
	return dev
}

// onDaemon makes the devices of a test those of a daemon.
func onDaemon(t *testing.T, p verbs.Protocol) {
	t.Helper()
	d := startDaemon(t, p, serverIP, clientIP, ip(11), ip(12), ip(14), ip(21), ip(22))
	t.Cleanup(func() { d.End(t) })
	d.open(t, serverIP)
	d.open(t, clientIP)
	testProtocol, testDaemon = p, &daemonDevices{d.name, d.served}
	t.Cleanup(func() { testProtocol, testDaemon = verbs.RoCE, nil })
}

// A connection between a daemon's device and one of this process, either way,
// with events of both on one channel.
func TestDaemonsDeviceReachesThisProcess(t *testing.T) {
	leavesNothing(t)
	const port = 4795 // the daemon's device is not where others are
	d := startDaemon(t, verbs.RoCE, fmt.Sprintf("%s:%d", ip(11), port))
	dev := d.open(t, fmt.Sprintf("%s:%d", ip(11), port))
	inline := verbs.QPConfig{MaxInline: 64}
	for _, listens := range []*verbs.Device{dev, nil} {
		l, err := Listen(map[bool]string{true: ip(11), false: serverIP}[listens != nil]+":0", ListenConfig{Device: listens, QP: inline})
		if err != nil {
			t.Fatal(err)
		}
		dialer := Dialer{Device: dev, QP: inline}
		if listens != nil {
			dialer = Dialer{Local: addr(clientIP, 0), RemoteUDPPort: port, QP: inline}
		}
		c, s := connected(t, l, dialer)
		talk(t, c, s, "there")
		talk(t, s, c, "and back")
		if c.LocalAddr() != s.RemoteAddr() || c.RemoteAddr() != s.LocalAddr() {
			t.Errorf("client %v to %v, server %v to %v", c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr())
		}
		if err := c.Disconnect(); err != nil {
			t.Error(err)
		}
		ended(t, s, ErrDisconnected)
		closed(t, l)
	}
	ud := Dialer{Local: addr(clientIP, 0), RemoteUDPPort: port, QP: inline}
	l, err := Listen(ip(11)+":0", ListenConfig{Device: dev, PortSpace: PortSpaceUDP, QP: inline})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	server := accepted(t, l)
	e, to, err := ud.Lookup(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	s := server()
	defer closed(t, s)
	if to.QPN != s.QP().Number() || to.AV.UDPPort != port || to.AV.DGID != dev.GID() {
		t.Errorf("found %+v", to)
	}
}

// Options that were set before UseDevice apply on the daemon's device, too.
func TestUseDeviceOfDaemonKeepsOptions(t *testing.T) {
	leavesNothing(t)
	d := startDaemon(t, verbs.RoCE, ip(11))
	dev := d.open(t, ip(11))
	ch := NewEventChannel()
	defer closed(t, ch)
	id := newID(t, ch, PortSpaceTCP)
	for o, v := range map[Option]int{
		OptionTOS: 0x68, OptionAckTimeout: 15, OptionMinRNRTimer: 3, OptionRemoteUDPPort: 4799, OptionResponseTimeout: 8, OptionRetries: 1,
	} {
		if err := id.SetOption(o, v); err != nil {
			t.Fatal(err)
		}
	}
	own, err := verbs.Open(ip(12), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, use := range []*verbs.Device{own, dev, own, dev, dev} { // the last one holds
		if err := id.UseDevice(use); err != nil {
			t.Fatal(err)
		}
	}
	if id.Device() != nil {
		t.Error("the id has a device before it is bound")
	}
	silent(t, ip(99)+":4799")
	if err := id.ResolveAddr(netip.AddrPort{}, addr(ip(99), 7)); err != nil {
		t.Fatal(err)
	}
	expect(t, ch, EventAddrResolved)
	if err := id.UseDevice(own); err == nil || id.Device() != dev || id.LocalAddr().Addr().String() != ip(11) {
		t.Errorf("found device %v, local address %v, %v", id.Device(), id.LocalAddr(), err)
	}
	if err := id.ResolveRoute(); err != nil {
		t.Fatal(err)
	}
	expect(t, ch, EventRouteResolved)
	if err := id.Connect(&ConnParam{QPN: 5}); err != nil {
		t.Fatal(err)
	}
	var late *UnreachableError
	if e := expect(t, ch, EventUnreachable); !errors.As(e.Err, &late) || e.Status != -110 || !strings.Contains(late.Err.Error(), "1 retries") {
		t.Errorf("found %v, status %d", e, e.Status)
	}
	closedID(t, id)
	secured := newID(t, ch, PortSpaceTCP)
	if err := secured.UseTLS(&tls.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := secured.UseDevice(dev); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TLS on a daemon's device: %v", err)
	}
	closedID(t, secured)
}

func closedID(t *testing.T, id *ID) {
	t.Helper()
	if err := id.Destroy(); err != nil {
		t.Error(err)
	}
}

// A killed daemon ends the connections and listeners on its devices: waiting calls
// return, and nothing stays behind.
func TestDaemonThatIsKilledEndsConnections(t *testing.T) {
	leavesNothing(t)
	d := startDaemon(t, verbs.RoCE, ip(11), ip(12))
	a, b := d.open(t, ip(11)), d.open(t, ip(12))
	l, err := Listen(":0", ListenConfig{Device: a})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	c, s := connected(t, l, Dialer{Device: b})
	silent := NewEventChannel() // takes no request
	defer closed(t, silent)
	deaf := newID(t, silent, PortSpaceTCP)
	defer closedID(t, deaf)
	if err := errors.Join(deaf.UseDevice(a), deaf.Bind(addr(ip(11), 0)), deaf.Listen(0)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 3)
	go func() {
		_, err := Dial(within(t), deaf.LocalAddr().String(), Dialer{Device: b})
		waits <- err
	}()
	request := expect(t, silent, EventConnectRequest)
	defer closedID(t, request.ID)
	go func() {
		_, err := l.Accept(within(t))
		waits <- err
	}()
	d.Kill()
	expect(t, silent, EventDeviceRemoval)
	for range 2 {
		if err := <-waits; !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("found %v", err)
		}
	}
	for _, c := range []*Conn{c, s} {
		select {
		case <-c.Done():
		case <-within(t).Done():
			t.Fatal("a connection is still established")
		}
		if err := c.Err(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("found %v", err)
		}
	}
	if err := request.ID.Reject(nil); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("found %v", err)
	}
	if _, err := Listen(":0", ListenConfig{Device: a}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("found %v", err)
	}
}

// Go programs have of a daemon's iWARP device what one of this process has, to
// which it speaks; C programs have what Linux's siw has.
func TestDaemonsIWARPDeviceHasExtensions(t *testing.T) {
	leavesNothing(t)
	d := startDaemon(t, verbs.IWARP, ip(11))
	dev := d.open(t, ip(11))
	if dev.Protocol() != verbs.IWARP || dev.Addr() != addr(ip(11), 0) || dev.Query().Transport != "iWARP" || dev.Name() != "siw0" {
		t.Errorf("found %v %v, %+v", dev.Protocol(), dev.Addr(), dev.Query())
	}
	l, err := Listen(serverIP+":0", ListenConfig{Protocol: verbs.IWARP})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	c, s := connected(t, l, Dialer{Device: dev, QP: verbs.QPConfig{MaxInline: 64}})
	talk(t, c, s, "there")
	pd, err := s.PD()
	if err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 8)
	word[0] = 40
	target, err := pd.RegisterMemory(word, verbs.LocalWrite|verbs.RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	defer closedMR(t, target)
	if pd, err = c.PD(); err != nil {
		t.Fatal(err)
	}
	old, err := pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer closedMR(t, old)
	add := verbs.SendWR{Op: verbs.OpFetchAdd, Flags: verbs.Signaled, SGL: []verbs.SGE{old.SGE(0, 8)}, RemoteAddr: target.Addr(), RKey: target.RKey(), Add: 2}
	for _, was := range []byte{40, 42} {
		if err := c.QP().PostSend(add); err != nil {
			t.Fatal(err)
		}
		completion(t, c.SendCQ())
		if found := old.Bytes()[0]; found != was {
			t.Errorf("expected %d before, found %d", was, found)
		}
	}
	if err := c.QP().PostSend(verbs.SendWR{Op: verbs.OpSendImm}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a SEND with immediate data: %v", err)
	}
	if err := s.Disconnect(); err != nil {
		t.Error(err)
	}
	ended(t, c, ErrDisconnected)
}

func closedMR(t *testing.T, mr *verbs.MR) {
	t.Helper()
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
}
