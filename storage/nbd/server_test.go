package nbd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/storage/block"
)

const size = 1 << 20

// A peer is a client of a server in this process.
type peer struct {
	t      *testing.T
	conn   net.Conn
	ended  chan error
	cookie uint64
}

func serve(t *testing.T, s *Server) *peer {
	t.Helper()
	here, there := net.Pipe()
	p := &peer{t: t, conn: here, ended: make(chan error, 1)}
	go func() { p.ended <- s.ServeConn(context.Background(), there) }()
	t.Cleanup(func() { here.Close() })
	if err := here.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return p
}

func newServer(t *testing.T) *Server {
	t.Helper()
	m, err := block.NewMemory(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{Backend: m, Name: "disk"}
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(p.conn, b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// greet receives the server's greeting and sends the client's flags.
func (p *peer) greet(flags uint32) {
	p.t.Helper()
	if b := p.receive(18); be.Uint64(b) != magicServer || be.Uint64(b[8:]) != magicOption || be.Uint16(b[16:]) != flagFixed|flagNoZeroes {
		p.t.Fatalf("greeting %x", b)
	}
	p.send(be.AppendUint32(nil, flags))
}

func optionOf(kind uint32, data []byte) []byte {
	b := be.AppendUint64(nil, magicOption)
	b = be.AppendUint32(b, kind)
	b = be.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// option sends an option, and returns the reply.
func (p *peer) option(kind uint32, data []byte) (reply uint32, answer []byte) {
	p.t.Helper()
	p.send(optionOf(kind, data))
	return p.reply(kind)
}

func (p *peer) reply(kind uint32) (reply uint32, answer []byte) {
	p.t.Helper()
	b := p.receive(20)
	if be.Uint64(b) != magicReply || be.Uint32(b[8:]) != kind {
		p.t.Fatalf("reply %x to option %d", b, kind)
	}
	return be.Uint32(b[12:]), p.receive(int(be.Uint32(b[16:])))
}

func nameOf(name string, infos ...uint16) []byte {
	b := append(be.AppendUint32(nil, uint32(len(name))), name...)
	b = be.AppendUint16(b, uint16(len(infos)))
	for _, i := range infos {
		b = be.AppendUint16(b, i)
	}
	return b
}

// goes chooses an export, and returns its size and flags.
func (p *peer) goes(name string) (exportSize uint64, flags uint16) {
	p.t.Helper()
	p.send(optionOf(optGo, nameOf(name, infoBlocks)))
	for {
		reply, b := p.reply(optGo)
		switch {
		case reply == replyAck:
			return exportSize, flags
		case reply != replyInfo:
			p.t.Fatalf("reply %#x", reply)
		case be.Uint16(b) == infoExport:
			exportSize, flags = be.Uint64(b[2:]), be.Uint16(b[10:])
		case be.Uint16(b) == infoBlocks:
			if be.Uint32(b[2:]) != 512 || be.Uint32(b[6:]) != 4096 || be.Uint32(b[10:]) != maxPayload {
				p.t.Errorf("block sizes %x", b)
			}
		}
	}
}

func (p *peer) command(flags, kind uint16, offset uint64, length uint32, data []byte) {
	p.t.Helper()
	p.cookie++
	b := be.AppendUint32(nil, magicRequest)
	b = be.AppendUint16(b, flags)
	b = be.AppendUint16(b, kind)
	b = be.AppendUint64(b, p.cookie)
	b = be.AppendUint64(b, offset)
	p.send(append(be.AppendUint32(b, length), data...))
}

// simple runs a command, and returns the error of the simple reply and the data of a read.
func (p *peer) simple(flags, kind uint16, offset uint64, length uint32, data []byte) (code uint32, got []byte) {
	p.t.Helper()
	p.command(flags, kind, offset, length, data)
	b := p.receive(16)
	if be.Uint32(b) != magicSimple || be.Uint64(b[8:]) != p.cookie {
		p.t.Fatalf("reply %x", b)
	}
	if code = be.Uint32(b[4:]); code == 0 && kind == cmdRead {
		got = p.receive(int(length))
	}
	return code, got
}

// structured runs a command, and returns the chunk of the structured reply.
func (p *peer) structured(flags, kind uint16, offset uint64, length uint32, data []byte) (chunk uint16, got []byte) {
	p.t.Helper()
	p.command(flags, kind, offset, length, data)
	b := p.receive(chunkHeader)
	if be.Uint32(b) != magicStructure || be.Uint16(b[4:]) != chunkDone || be.Uint64(b[8:]) != p.cookie {
		p.t.Fatalf("reply %x", b)
	}
	return be.Uint16(b[6:]), p.receive(int(be.Uint32(b[16:])))
}

func TestCommandsReachTheBackend(t *testing.T) {
	s := newServer(t)
	p := serve(t, s)
	p.greet(flagFixed)
	if n, flags := p.goes("disk"); n != size || flags&exportReadOnly != 0 || flags&exportTrim == 0 {
		t.Errorf("size %d, flags %#x", n, flags)
	}
	want := make([]byte, size)
	step := func(code uint32, _ []byte) {
		t.Helper()
		if code != 0 {
			t.Errorf("error %d", code)
		}
		if code, got := p.simple(0, cmdRead, 0, size, nil); code != 0 || !bytes.Equal(got, want) {
			t.Errorf("read: error %d, equal %v", code, bytes.Equal(got, want))
		}
	}
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 32<<10)
	copy(want[4096:], data)
	step(p.simple(flagFUA, cmdWrite, 4096, uint32(len(data)), data))
	clear(want[8192:16384])
	step(p.simple(0, cmdTrim, 8192, 8192, nil))
	clear(want[65536:66048])
	step(p.simple(flagNoHole, cmdZeroes, 65536, 512, nil))
	step(p.simple(0, cmdFlush, 0, 0, nil))
	p.command(0, cmdEnd, 0, 0, nil)
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

func TestStructuredRepliesHaveDataAndReasons(t *testing.T) {
	p := serve(t, newServer(t))
	p.greet(flagFixed | flagNoZeroes)
	if reply, _ := p.option(optStructured, nil); reply != replyAck {
		t.Fatalf("reply %#x", reply)
	}
	p.goes("")
	if chunk, _ := p.structured(0, cmdWrite, 512, 512, bytes.Repeat([]byte{7}, 512)); chunk != chunkNone {
		t.Errorf("write: chunk %#x", chunk)
	}
	if chunk, b := p.structured(flagDF, cmdRead, 512, 512, nil); chunk != chunkData || be.Uint64(b) != 512 || !bytes.Equal(b[8:], bytes.Repeat([]byte{7}, 512)) {
		t.Errorf("read: chunk %#x, %x", chunk, b)
	}
	if chunk, b := p.structured(0, cmdRead, 100, 512, nil); chunk != chunkError || be.Uint32(b) != errArgument || !strings.Contains(string(b[6:]), "expected multiples of 512 bytes, found offset 100") {
		t.Errorf("wrong read: chunk %#x, %s", chunk, b)
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	s := newServer(t)
	p := serve(t, s)
	p.greet(flagFixed)
	p.goes("")
	for _, x := range []struct {
		flags, kind uint16
		offset      uint64
		length      uint32
		data        []byte
		code        uint32
	}{
		{0, cmdRead, size - 512, 1024, nil, errArgument},
		{0, cmdRead, 1 << 63, 512, nil, errArgument},
		{0, cmdRead, 0, maxPayload + 512, nil, errArgument},
		{0, cmdRead, 0, 100, nil, errArgument},
		{flagNoHole, cmdRead, 0, 512, nil, errArgument},
		{0, cmdWrite, size, 512, make([]byte, 512), errSpace},
		{0, cmdZeroes, size - 512, 1024, nil, errSpace},
		{0, cmdTrim, size, 512, nil, errArgument},
		{0, cmdFlush, 512, 0, nil, errArgument},
		{0, 99, 0, 0, nil, errArgument},
	} {
		if code, _ := p.simple(x.flags, x.kind, x.offset, x.length, x.data); code != x.code {
			t.Errorf("%+v: error %d", x, code)
		}
	}
	p.command(0, cmdWrite, 0, maxPayload+512, nil)
	if err := <-p.ended; err == nil || !strings.Contains(err.Error(), "expected at most 33554432 bytes, found 33554944") {
		t.Errorf("a write that is too long: %v", err)
	}
}

func TestReadOnlyExportIsNotWritten(t *testing.T) {
	s := newServer(t)
	s.ReadOnly = true
	p := serve(t, s)
	p.greet(flagFixed)
	if _, flags := p.goes(""); flags&exportReadOnly == 0 || flags&(exportTrim|exportZeroes) != 0 {
		t.Errorf("flags %#x", flags)
	}
	for _, kind := range []uint16{cmdWrite, cmdTrim, cmdZeroes} {
		var data []byte
		if kind == cmdWrite {
			data = make([]byte, 512)
		}
		if code, _ := p.simple(0, kind, 0, 512, data); code != errPermission {
			t.Errorf("command %d: error %d", kind, code)
		}
	}
}

func TestHandshake(t *testing.T) {
	p := serve(t, newServer(t))
	p.greet(flagFixed)
	if reply, b := p.option(optList, nil); reply != replyServer || string(b[4:]) != "disk" {
		t.Errorf("list: reply %#x, %q", reply, b)
	}
	if reply, _ := p.reply(optList); reply != replyAck {
		t.Errorf("list: reply %#x", reply)
	}
	for _, x := range []struct {
		option uint32
		data   []byte
		reply  uint32
	}{
		{optList, []byte{1}, errInvalid},
		{optStructured, []byte{1}, errInvalid},
		{optInfo, nameOf("other"), errNoExport},
		{optGo, nameOf("other"), errNoExport},
		{optGo, []byte{0, 0, 0, 9, 1, 2}, errInvalid},
		{5, nil, errUnknown}, // TLS
		{optGo, make([]byte, maxOption+1), errTooLong},
	} {
		if reply, b := p.option(x.option, x.data); reply != x.reply {
			t.Errorf("option %d: reply %#x %s", x.option, reply, b)
		}
	}
	p.send(optionOf(optExportName, []byte("disk")))
	if b := p.receive(10 + 124); be.Uint64(b) != size {
		t.Errorf("export %x", b)
	}
	if code, _ := p.simple(0, cmdRead, 0, 512, nil); code != 0 {
		t.Errorf("read: error %d", code)
	}
	p.conn.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}

	p = serve(t, newServer(t))
	p.greet(flagFixed)
	if reply, _ := p.option(optAbort, nil); reply != replyAck {
		t.Errorf("abort: reply %#x", reply)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	p = serve(t, newServer(t))
	p.greet(0)
	if err := <-p.ended; err == nil || !strings.Contains(err.Error(), "fixed newstyle") {
		t.Errorf("a client of the old handshake: %v", err)
	}
}

var errBroken = errors.New("the medium is broken")

// A brokenDisk cannot be read.
type brokenDisk struct{ *block.Memory }

func (brokenDisk) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

func TestErrorsOfTheBackendAreTold(t *testing.T) {
	s := newServer(t)
	d := brokenDisk{s.Backend.(*block.Memory)}
	var said error
	s.Backend, s.Events = d, func(err error) { said = err }
	p := serve(t, s)
	p.greet(flagFixed)
	p.goes("")
	if code, _ := p.simple(0, cmdRead, 0, 512, nil); code != errIO || !errors.Is(said, errBroken) {
		t.Errorf("error %d, event %v", code, said)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- newServer(t).Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: conn}
	p.greet(flagFixed)
	p.goes("")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection lives on")
	}
}

// A short listener has no descriptor left at first.
type short struct {
	net.Listener
	failed bool
}

func (s *short) Accept() (net.Conn, error) {
	if !s.failed {
		s.failed = true
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

// Clients whose connections take all descriptors of the process do not end the server.
func TestServeOutlivesAShortageOfDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- newServer(t).Serve(ctx, &short{Listener: l}) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		p := &peer{t: t, conn: conn}
		p.greet(flagFixed)
		p.goes("")
	}()
	select {
	case err := <-ended:
		t.Fatal(err)
	case <-accepted:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClientThatTakesNoRepliesIsGivenUp: it would hold memory, and its place among the clients.
func TestClientThatTakesNoRepliesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := block.NewMemory(2*partLen, 512)
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- (&Server{Backend: m, Name: "disk"}).ServeConn(t.Context(), there) }()
		p := &peer{t: t, conn: here}
		p.greet(flagFixed | flagNoZeroes)
		p.goes("disk")
		began := time.Now()
		p.command(0, cmdRead, 0, 2*partLen, nil)
		time.Sleep(replyTime / 2)
		p.receive(16 + partLen) // and no more
		err = <-ended
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "expected the client to take a part of a reply within 1m0s") {
			t.Errorf("the reason of the end is %v", err)
		}
		if took := time.Since(began); took != replyTime+replyTime/2 {
			t.Errorf("the end came after %v", took)
		}
		here.Close()
	})
}

func FuzzParsers(f *testing.F) {
	f.Add(nameOf("disk", infoExport, infoBlocks))
	f.Add(optionOf(optGo, nameOf("")))
	f.Add(be.AppendUint32(nil, magicRequest))
	f.Fuzz(func(t *testing.T, b []byte) {
		if name, infos, err := parseInfo(b); err == nil && !bytes.Equal(nameOf(name, infos...), b) {
			t.Errorf("%x is parsed as %q, %v", b, name, infos)
		}
		_, _, _ = parseOption(b)
		if _, err := parseRequest(b); err == nil && len(b) < requestLen {
			t.Errorf("%x is parsed", b)
		}
	})
}

// FuzzServer sends any bytes. The server answers or ends the connection.
func FuzzServer(f *testing.F) {
	begin := be.AppendUint32(nil, flagFixed)
	f.Add(begin)
	f.Add(append(append(begin, optionOf(optStructured, nil)...), optionOf(optGo, nameOf("disk"))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = newServer(t).ServeConn(t.Context(), there)
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = here.Write(b)
		here.Close()
		<-ended
	})
}
