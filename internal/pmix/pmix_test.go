package pmix

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// A recording contains the messages between a program with OpenPMIx 4.2.2 and its server under
// Open MPI 4.1.4, without headers. The program was rank 1, and read the value of rank 0.
type recording struct {
	namespace, hello             string
	commit, fence, get, finalize string
	ok, value                    string // answers
	format                       format
}

func recordings() []recording {
	const name41, name3 = "31343932333835373933", "31343931323036313435"
	const hello = "native\x00\x00\x00\x00\x08UIDGGIDG"
	return []recording{{
		namespace: "1492385793", format: formats[0],
		hello:    hello + "\x001492385793\x00\x00\x00\x00\x014.2.2rc2\x00v41\x00\x01hash\x00",
		commit:   "0202020102011802" + "12736f667472646d6100" + "1b0b68656c6c6f2d76616c7565" + "0202020118" + "0212736f667472646d6100" + "1b0b68656c6c6f2d76616c7565",
		fence:    "020302010216" + name41 + "00feffffff0f0201021a706d69782e636f6c6c65637400000101",
		get:      "02040216" + name41 + "00020002000212736f667472646d6100",
		finalize: "0205",
		ok:       "0200",
		value:    "020002260216" + name41 + "00000212736f667472646d61001b0b68656c6c6f2d76616c7565",
	}, {
		namespace: "1491206145", format: formats[1],
		hello: hello + "\x001491206145\x00\x00\x00\x00\x014.2.2rc2\x00v3\x00\x01hash\x00",
		commit: "0000000102" + strings.Repeat("00000001SS0000000101000f0000000000000028"+
			"0000000100000009736f667472646d6100001b000f000000000000000b68656c6c6f2d76616c7565", 2),
		fence: "000000010300000001000f0000000000000001000000010000000b" + name3 + "00fffffffe00000001000f0000000000000001" +
			"000000010000000d706d69782e636f6c6c6563740000000000000101",
		get:      "0000000104000000010000000b" + name3 + "00000000010000000000000001000f00000000000000000000000100000009736f667472646d6100",
		finalize: "0000000105",
		ok:       "0000000100000000",
		value: "000000010000000000000001000f000000000000003f000000010000000b" + name3 + "0000000000" +
			"0000000100000009736f667472646d6100001b000f000000000000000b68656c6c6f2d76616c7565",
	}}
}

func (r *recording) server() *Server {
	return &Server{Namespace: r.namespace, Rank: 1, security: securityNative, format: r.format}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	for _, scope := range []string{"01", "02"} {
		s = strings.Replace(s, "SS", scope, 1)
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMessagesAreThoseOfOpenPMIx(t *testing.T) {
	for _, r := range recordings() {
		s := r.server()
		for _, x := range []struct {
			name, want string
			got        []byte
		}{
			{"commit", r.commit, s.commit("softrdma", []byte("hello-value"))},
			{"fence", r.fence, s.fence()},
			{"get", r.get, s.get(0, "softrdma")},
			{"finalize", r.finalize, s.request(commandFinalize).b},
		} {
			if want := unhex(t, x.want); !bytes.Equal(x.got, want) {
				t.Errorf("%s, %s:\n%x, expected\n%x", r.format.module, x.name, x.got, want)
			}
		}
		s.format.version = "4.2.2rc2"
		user := binary.NativeEndian.AppendUint32(nil, uint32(os.Geteuid()))
		user = binary.NativeEndian.AppendUint32(user, uint32(os.Getegid()))
		want := strings.Replace(r.hello, "UIDGGIDG", string(user), 1)
		header := strings.Repeat("\xff", 8) + string(binary.NativeEndian.AppendUint64(nil, uint64(len(want))))
		if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
			header = strings.Repeat("\xff", 8) + string(binary.BigEndian.AppendUint64(nil, uint64(len(want))<<32))
		}
		if got := s.hello(); string(got) != header+want {
			t.Errorf("%s, hello:\n%q, expected\n%q", r.format.module, got, header+want)
		}
	}
}

// message returns a message with its header.
func message(tag uint32, b []byte) []byte {
	h := binary.BigEndian.AppendUint32(make([]byte, 4), tag)
	h = binary.BigEndian.AppendUint32(h, uint32(len(b)))
	return append(append(h, 0, 0, 0, 0), b...)
}

// serve plays a server, which accepts a client, and gives each request an answer. It returns
// the requests, without headers, and closes the connection after the last answer.
func serve(t *testing.T, conn net.Conn, greeting []byte, answers ...[]byte) <-chan []byte {
	t.Helper()
	requests := make(chan []byte, len(answers)+1)
	go func() {
		defer close(requests)
		defer conn.Close()
		var header [headerLen]byte
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		b := make([]byte, binary.NativeEndian.Uint32(header[8:]))
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		requests <- b
		if _, err := conn.Write(greeting); err != nil {
			return
		}
		for _, answer := range answers {
			if _, err := io.ReadFull(conn, header[:]); err != nil {
				return
			}
			b := make([]byte, binary.BigEndian.Uint32(header[8:]))
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			requests <- b
			copy(answer[4:8], header[4:8]) // the tag, unless it is an event's
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	return requests
}

// accepted is a server's message that a client has index 7.
var accepted = []byte{0, 0, 0, 0, 0, 0, 0, 7}

func connect(t *testing.T, ctx context.Context, s *Server, greeting []byte, answers ...[]byte) (*Client, <-chan []byte, error) {
	t.Helper()
	here, there := net.Pipe()
	requests := serve(t, there, greeting, answers...)
	c, err := s.open(ctx, here)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, requests, err
}

func TestClientExchangesValues(t *testing.T) {
	for _, r := range recordings() {
		ok, value := unhex(t, r.ok), unhex(t, r.value)
		c, requests, err := connect(t, t.Context(), r.server(), accepted, message(0, ok), message(0, ok), message(0, value), message(0, ok))
		if err != nil {
			t.Fatal(err)
		}
		if c.index != 7 {
			t.Errorf("index %d, expected 7", c.index)
		}
		if err := errors.Join(c.Commit("softrdma", []byte("hello-value")), c.Fence()); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(0, "softrdma"); err != nil || string(got) != "hello-value" {
			t.Errorf("%q, %v", got, err)
		}
		if err := c.Finalize(); err != nil {
			t.Error(err)
		}
		<-requests // hello
		for _, want := range []string{r.commit, r.fence, r.get, r.finalize} {
			if got := <-requests; !bytes.Equal(got, unhex(t, want)) {
				t.Errorf("%s: %x, expected %s", r.format.module, got, want)
			}
		}
	}
}

// Servers may send events at any time.
func TestClientDropsEvents(t *testing.T) {
	r := recordings()[0]
	here, there := net.Pipe()
	go func() {
		var hello [headerLen]byte
		_, _ = io.ReadFull(there, hello[:])
		_, _ = io.CopyN(io.Discard, there, int64(binary.NativeEndian.Uint32(hello[8:])))
		_, _ = there.Write(accepted)
		_, _ = io.CopyN(io.Discard, there, headerLen+int64(len(unhex(t, r.fence))))
		_, _ = there.Write(message(0, make([]byte, 2*maxAnswer)))
		_, _ = there.Write(message(firstTag+1, unhex(t, r.ok)))
	}()
	c, err := r.server().open(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Fence(); err != nil {
		t.Error(err)
	}
}

func TestConnectRefused(t *testing.T) {
	for name, x := range map[string]struct {
		greeting []byte
		want     string
	}{
		"closed":            {nil, "EOF"},
		"credential":        {[]byte{0xff, 0xff, 0xff, 0xf4}, "PMIX_ERR_INVALID_CRED (-12)"},
		"another handshake": {[]byte{0xff, 0xff, 0xff, 0x9c}, "status -100"},
		"no index":          {accepted[:6], "unexpected EOF"},
	} {
		_, _, err := connect(t, t.Context(), recordings()[0].server(), x.greeting)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "format v41") {
			t.Errorf("%s: %v, expected %v with %q", name, err, ErrRefused, x.want)
		}
	}
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	r := recordings()[0]
	p := func(pack func(p *packer)) []byte {
		p := &packer{format: r.format}
		pack(p)
		return message(0, p.b)
	}
	long := message(0, nil)
	binary.BigEndian.PutUint32(long[8:], maxAnswer+1)
	value := unhex(t, r.value)
	text := bytes.Replace(value, []byte{0x1b, 0x0b}, []byte{typeString, 22}, 1)
	for name, x := range map[string]struct {
		answer []byte
		want   string
	}{
		"header of 3 bytes": {make([]byte, 8), "header of an answer: unexpected EOF"},
		"nothing":           {p(func(*packer) {}), "expected 1 more bytes, found 0"},
		"too long":          {long, "answer of 1048577 bytes, expected at most 1048576"},
		"2 statuses":        {p(func(p *packer) { p.int32(2) }), "expected 1 value, found 2"},
		"error":             {p(func(p *packer) { p.one(); p.int32(-46) }), "PMIX_ERR_NOT_FOUND (-46)"},
		"no value":          {message(0, unhex(t, r.ok)), "answer without the value of softrdma of rank 0"},
		"value of rank 1":   {message(0, bytes.Replace(value, []byte("3\x00\x00"), []byte("3\x00\x01"), 1)), "without the value"},
		"a string":          {message(0, text), "value of type 3, expected type 27"},
		"unknown type":      {message(0, bytes.Replace(text, []byte("softrdma\x00\x03"), []byte("softrdmo\x00\x27"), 1)), "value of type 39"},
		"cut":               {message(0, value[:len(value)-1]), "expected 38 more bytes, found 37"},
	} {
		c, _, err := connect(t, t.Context(), r.server(), accepted, x.answer)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Get(0, "softrdma"); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %q, %v, expected %q", name, v, err, x.want)
		}
	}
	c, _, err := connect(t, t.Context(), r.server(), accepted, p(func(p *packer) { p.one(); p.int32(-24) }))
	if err != nil {
		t.Fatal(err)
	}
	if err, want := c.Fence(), Status(-24); !errors.Is(err, want) {
		t.Errorf("%v, expected %v", err, want)
	}
}

// A value is found among other published values.
func TestGetSkipsValuesOfOtherKeys(t *testing.T) {
	for _, f := range formats {
		values := &packer{format: f}
		values.one()
		values.string("job")
		values.uint32(5)
		for kind, pack := range map[uint16]func(){
			typeBool:       func() { values.uint8(1) },
			typeInt8:       func() { values.uint8(0xff) },
			typeString:     func() { values.string("text") },
			typeUint16:     func() { values.uint16(0xffff) },
			typeInt32:      func() { values.int32(-1 << 31) },
			typeProcRank:   func() { values.uint32(1<<32 - 1) },
			typeSize:       func() { values.size(1 << 40) },
			typeByteObject: func() { values.bytes([]byte("bytes")) },
		} {
			values.one()
			values.string("other")
			values.uint16(kind)
			pack()
		}
		values.one()
		values.string("mine")
		values.uint16(typeByteObject)
		values.bytes([]byte("value"))
		p := &packer{format: f}
		p.one()
		p.bytes(values.b)
		u := &unpacker{format: f, b: p.b}
		if v, err := u.find("job", 5, "mine"); err != nil || string(v) != "value" {
			t.Errorf("%s: %q, %v", f.module, v, err)
		}
	}
}

func TestContextEndsConnection(t *testing.T) {
	r := recordings()[0]
	ctx, cancel := context.WithCancel(t.Context())
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() { // a server that answers no request
		var hello [headerLen]byte
		_, _ = io.ReadFull(there, hello[:])
		_, _ = io.CopyN(io.Discard, there, int64(binary.NativeEndian.Uint32(hello[8:])))
		_, _ = there.Write(accepted)
		_, _ = io.CopyN(io.Discard, there, headerLen+int64(len(unhex(t, r.fence))))
		cancel()
		_, err := there.Read(make([]byte, 1))
		ended <- err
	}()
	c, err := r.server().open(ctx, here)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Fence(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) {
			t.Errorf("server reads %v, expected %v", err, io.EOF)
		}
	case <-time.After(30 * time.Second):
		t.Error("the connection is open")
	}
}
