package rdmanet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// Keep-alives detect a peer's device that does not answer, although the program
// only reads.
func TestKeepAliveDetectsSilentPeer(t *testing.T) {
	da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
	defer da.Close()
	defer db.Close()
	a, wa := half(t, da, Options{KeepAlive: 50 * time.Millisecond, Linger: -1})
	b, wb := half(t, db, Options{KeepAlive: -1, Linger: -1})
	joinWith(t, a, b, wa, wb, 10)
	wa.mute, wb.mute = true, true
	defer b.Close()
	defer a.Close()
	if err := wb.qp.ToReset(); err != nil {
		t.Fatal(err)
	}
	a.SetReadDeadline(soon())
	_, err := a.Read(make([]byte, 1))
	var wc *verbs.CompletionError
	if !errors.Is(err, syscall.ETIMEDOUT) || !errors.As(err, &wc) || wc.Status != verbs.RetryExcErr {
		t.Fatalf("expected ETIMEDOUT for RETRY_EXC_ERR, found %v", err)
	}
	if _, err := a.Write(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Fatalf("writing: expected the same, found %v", err)
	}
}

// Close reports data that the peer's device did not receive, because no later call
// can.
func TestCloseReportsUndeliveredData(t *testing.T) {
	for name, c := range map[string]struct {
		linger time.Duration
		want   error
	}{
		"connection failed": {time.Minute, syscall.ETIMEDOUT},
		"time is over":      {time.Millisecond, os.ErrDeadlineExceeded},
		"not waited for":    {-1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
			defer da.Close()
			defer db.Close()
			a, wa := half(t, da, Options{KeepAlive: -1, Linger: c.linger})
			b, wb := half(t, db, Options{KeepAlive: -1, Linger: -1})
			joinWith(t, a, b, wa, wb, 10)
			wa.mute, wb.mute = true, true
			defer b.Close()
			if err := wb.qp.ToReset(); err != nil {
				t.Fatal(err)
			}
			if n, err := a.Write([]byte("for nobody")); n != 10 || err != nil {
				t.Fatal(n, err)
			}
			if err := a.Close(); !errors.Is(err, c.want) {
				t.Errorf("expected %v, found %v", c.want, err)
			}
		})
	}
}

// Close returns no error if the peer has read everything and closed.
func TestCloseAfterDeliverySucceeds(t *testing.T) {
	a, b := pair(t, Options{})
	if _, err := a.Write([]byte("all")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// Keep-alives are invisible to programs and do not fail.
func TestKeepAlivesAreInvisible(t *testing.T) {
	a, b := pair(t, Options{KeepAlive: time.Millisecond})
	time.Sleep(100 * time.Millisecond)
	a.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := a.Read(make([]byte, 1)); n != 0 || err == nil || err.(net.Error).Timeout() == false {
		t.Fatalf("found %d bytes, %v", n, err)
	}
	a.SetReadDeadline(soon())
	if err := a.SetKeepAlivePeriod(0); err != nil {
		t.Fatal(err)
	}
	b.Write([]byte("x"))
	if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

// A violation of the protocol ends the connection with the name of the violation.
func TestPeerThatBreaksTheProtocolIsRefused(t *testing.T) {
	imm := func(op rsocket.Op, data uint32) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpWriteImm, Imm: uint32(rsocket.NewMessage(op, data))}
	}
	for name, c := range map[string]struct {
		send verbs.SendWR
		want reason.Reason
	}{
		"reserved operation":    {imm(5, 0), reason.SocketMessage},
		"operation 1":           {imm(1, 10), reason.SocketMessage},
		"operation 2":           {imm(rsocket.OpDirect, 10), reason.SocketMessage},
		"data without room":     {imm(rsocket.OpData, rsocket.MaxData), reason.SocketOverrun},
		"mapping that is not":   {imm(rsocket.OpIomap, 7777), reason.SocketMapping},
		"mapping without bytes": {imm(rsocket.OpIomap, 0), reason.SocketMapping},
		"no immediate data":     {verbs.SendWR{Op: verbs.OpSend}, reason.SocketMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, _, wb := pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), Options{})
			if err := wb.qp.PostSend(c.send); err != nil {
				t.Fatal(err)
			}
			a.SetReadDeadline(soon())
			_, err := a.Read(make([]byte, 1))
			var f *rsocket.Fault
			if !errors.As(err, &f) || f.Detail.Reason != c.want {
				t.Fatalf("expected %v, found %v", c.want, err)
			}
		})
	}
}

// A misbehaving peer grants a buffer again while it is in use.
func TestPeerThatGrantsABufferTwiceIsRefused(t *testing.T) {
	a, b, _, wb := pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), Options{})
	b.mu.Lock()
	b.control(rsocket.NewMessage(rsocket.OpControl, rsocket.ControlKeepAlive)) // some peers send it as a message
	var entry [rsocket.SGELen]byte
	addr, key := b.peer.PutTarget(entry[:], rsocket.SGE{Addr: 1, Key: 2, Length: 3})
	err := wb.qp.PostSend(verbs.SendWR{
		WRID: workControl, Op: verbs.OpWriteImm, Imm: uint32(rsocket.NewMessage(rsocket.OpCredits, 5)), Inline: entry[:], RemoteAddr: addr, RKey: key,
	})
	b.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	a.SetReadDeadline(soon())
	_, err = a.Read(make([]byte, 1))
	var f *rsocket.Fault
	if !errors.As(err, &f) || f.Detail.Reason != reason.SocketTarget {
		t.Fatalf("expected %v, found %v", reason.SocketTarget, err)
	}
}

// The devices refuse access by the peer's program to memory that was not announced
// to it.
func TestPeerCannotReachOtherMemory(t *testing.T) {
	a, _, wa, wb := pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), Options{})
	if err := wb.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, SGL: []verbs.SGE{wb.peerSend(t, 16)}, RemoteAddr: a.store.sendArea.mr.Addr(), RKey: a.store.sendArea.mr.RKey(),
	}); err != nil {
		t.Fatal(err)
	}
	_ = wa
	a.SetReadDeadline(soon())
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("expected ECONNRESET, found %v", err)
	}
	for _, x := range a.store.sendArea.bytes {
		if x != 0 {
			t.Fatal("the peer has written to the send buffer")
		}
	}
}

// peerSend returns n bytes of memory that are all 1.
func (w *wire) peerSend(t *testing.T, n int) verbs.SGE {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = 1
	}
	mr, err := w.qp.PD().RegisterMemory(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mr.Deregister() })
	return mr.SGE(0, n)
}

// Closing the device of a connection ends waiting calls and a later Close.
func TestDeviceClosedUnderAConnection(t *testing.T) {
	da, db := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{})
	a, _, _, _ := pairOn(t, da, db, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	da.Close()
	if err := <-done; !errors.Is(err, verbs.ErrClosed) {
		t.Fatalf("expected %v, found %v", verbs.ErrClosed, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a.store.mem.Bytes() != nil {
		t.Error("the memory was not freed")
	}
}

// The device closes between the steps of a dial, or before its listener has
// answered a request.
func TestDeviceClosedUnderASetUp(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	cm := rdmacm.Dialer{Device: d.Device}
	e, err := cm.Resolve(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d.Device.Close()
	if _, err := prepare(e, &Options{}, e.Close); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("expected %v, found %v", verbs.ErrClosed, err)
	}
}

// The peer writes to mapped memory without a receiver.
func TestMappedMemoryIsWrittenByThePeer(t *testing.T) {
	a, b := pair(t, Options{MappedMemory: 2})
	var maps []*Mapping
	mem := [2][]byte{make([]byte, 100_000), make([]byte, 50)}
	for i, m := range mem {
		x, err := a.MapMemory(m, uint64(1_000_000*i))
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, x)
	}
	if _, err := a.MapMemory(make([]byte, 1), 7); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("a third mapping: %v", err)
	}
	a.Write([]byte("go"))
	if _, err := io.ReadFull(b, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	p := random(5, 99_990)
	if n, err := b.WriteMapped(p, 10); n != len(p) || err != nil {
		t.Fatal(n, err)
	}
	if n, err := b.WriteMapped(make([]byte, 60), 1_000_000); n != 50 || !errors.Is(err, ErrNotMapped) {
		t.Fatalf("found %d, %v", n, err)
	}
	b.Write([]byte("done"))
	if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if string(mem[0][10:]) != string(p) {
		t.Fatal("other bytes are in the memory")
	}
	if err := maps[1].Unmap(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.MapMemory(make([]byte, 1), 7); err != nil {
		t.Fatalf("in place of one that was unmapped: %v", err)
	}
}
