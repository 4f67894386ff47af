package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"softrdma/internal/rundir"
)

// A named is a device and its name.
type named struct {
	Device
	name string
	gone chan struct{} // closed when the process no longer answers for the device
}

// A server answers for the devices and fabrics of a process. It listens while there are any.
type server struct {
	mu      sync.Mutex
	devices []named
	fabrics []*fabric
	stop    func() // nil while the server does not listen
}

// A fabric answers questions in JSON, those of package fabric/control.
type fabric struct {
	name string
	ask  func(question []byte) (answer []byte, err error)
}

// process is the server of this process.
var process server

// Add makes the process answer for a device, by the name or, if another device has it, by the name and
// a number. Where the socket cannot be made the process does not answer, which is no error: devices
// work without. remove ends it, and waits for requests.
func Add(name string, d Device) (remove func()) { return process.add(name, d) }

func (s *server) add(name string, d Device) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := name
	for i := 2; slices.ContainsFunc(s.devices, func(n named) bool { return n.name == name }); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	s.devices = append(s.devices, named{d, name, make(chan struct{})})
	if s.stop == nil {
		s.stop = s.listen()
	}
	return func() { s.remove(d) }
}

// AddFabric is Add for a fabric. ask is called by any goroutine, also while the fabric ends.
func AddFabric(name string, ask func(question []byte) (answer []byte, err error)) (remove func()) {
	return process.addFabric(&fabric{name, ask})
}

func (s *server) addFabric(f *fabric) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fabrics = append(s.fabrics, f)
	if s.stop == nil {
		s.stop = s.listen()
	}
	return func() {
		s.mu.Lock()
		s.fabrics = slices.DeleteFunc(s.fabrics, func(x *fabric) bool { return x == f })
		s.stopIfEmpty()
	}
}

func (s *server) remove(d Device) {
	s.mu.Lock()
	s.devices = slices.DeleteFunc(s.devices, func(n named) bool {
		if n.Device != d {
			return false
		}
		close(n.gone)
		return true
	})
	s.stopIfEmpty()
}

// stopIfEmpty unlocks the server, and ends its listening if it has nothing to answer for.
func (s *server) stopIfEmpty() {
	var stop func()
	if len(s.devices)+len(s.fabrics) == 0 {
		stop, s.stop = s.stop, nil
	}
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (s *server) list() []named {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices)
}

func (s *server) listFabrics() []*fabric {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fabrics)
}

// listen starts to answer. It returns nil if the socket cannot be made.
func (s *server) listen() (stop func()) {
	dir := Directory()
	if dir == "" || makeDirectory(dir) != nil {
		return nil
	}
	l, err := listenUnix(filepath.Join(dir, strconv.Itoa(os.Getpid())))
	if err != nil {
		return nil
	}
	h := &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // a client that sends nonsense is told so
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(sameUser{l})
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close()
		}
		<-done
	}
}

// listenUnix listens on a path. What another process with this number has left there is removed.
func listenUnix(path string) (*net.UnixListener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	if err == nil {
		return l, nil
	}
	if e := rundir.RemoveDead(path); e != nil { // above all another namespace's process of this number
		return nil, errors.Join(err, e)
	}
	return net.ListenUnix("unix", at)
}

// A sameUser accepts connections of this user and of root.
type sameUser struct{ *net.UnixListener }

// Accept implements net.Listener.
func (l sameUser) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if allowed(c) {
			return c, nil
		}
		_ = c.Close()
	}
}
