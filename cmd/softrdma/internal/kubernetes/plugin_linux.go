//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"softrdma/internal/rundir"
)

// pace says how often a plug-in does something.
type pace struct {
	look        time.Duration // between two looks at the sockets and at the node
	least, most time.Duration // between two attempts to register
	answer      time.Duration // in which kubelet answers
}

var usualPace = pace{look: time.Second, least: time.Second, most: 30 * time.Second, answer: 15 * time.Second}

// A plugin offers one resource to kubelet.
type plugin struct {
	resource
	pace
	dir    string // with kubelet's socket
	answer *v1beta1.ContainerAllocateResponse
	health *health
	log    func(format string, args ...any)
}

// run serves kubelet, and registers again whenever kubelet restarts, until the context ends.
func (p *plugin) run(ctx context.Context) {
	wait, said := p.least, ""
	for {
		seen := identify(p.kubeletSocket())
		registered, err := p.serve(ctx, seen)
		if ctx.Err() != nil {
			return
		}
		if registered {
			wait, said = p.least, ""
		}
		if text(err) != said {
			p.log("%s: %v", p.name, err)
		}
		said = text(err)
		p.pause(ctx, wait, seen)
		wait = min(2*wait, p.most)
	}
}

// pause waits, at most until kubelet has another socket.
func (p *plugin) pause(ctx context.Context, wait time.Duration, seen file) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(p.look)
	defer tick.Stop()
	for identify(p.kubeletSocket()) == seen {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// serve registers with the kubelet that has the socket seen, and serves it until it is gone or the
// context ends.
func (p *plugin) serve(ctx context.Context, seen file) (registered bool, err error) {
	l, err := listen(filepath.Join(p.dir, p.endpoint()))
	if err != nil {
		return false, err
	}
	mine := identify(l.Addr().String())
	s := &service{ids: p.ids(), answer: p.answer, health: p.health, left: make(chan struct{}, 1)}
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer func() {
		server.Stop()
		if identify(l.Addr().String()) == mine {
			_ = os.Remove(l.Addr().String())
		}
	}()
	// Kubelet connects to the socket before it answers, which it may just have removed.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- p.register(ctx) }()
	tick := time.NewTicker(p.look)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			if err != nil {
				return false, err
			}
			registered = true
			p.log("%s: registered with kubelet: %d devices", p.name, p.count)
		case <-ctx.Done():
			return registered, nil
		case err := <-ended:
			return registered, fmt.Errorf("%s: %w", l.Addr(), err)
		case <-s.left:
			return registered, errors.New("kubelet has left")
		case <-tick.C:
		}
		switch {
		case identify(p.kubeletSocket()) != seen:
			return registered, errors.New("kubelet has restarted")
		case identify(l.Addr().String()) != mine:
			return registered, fmt.Errorf("%s is gone: kubelet has restarted", l.Addr())
		}
	}
}

func (p *plugin) kubeletSocket() string {
	return filepath.Join(p.dir, filepath.Base(v1beta1.KubeletSocket))
}

// register tells kubelet of the resource.
func (p *plugin) register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix:"+p.kubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, p.pace.answer)
	defer cancel()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: p.endpoint(), ResourceName: p.name, Options: &v1beta1.DevicePluginOptions{},
	})
	if err != nil {
		return fmt.Errorf("register with kubelet: %w", err)
	}
	return nil
}

// listen makes a socket. It replaces one that a killed plug-in has left.
func listen(path string) (*net.UnixListener, error) {
	switch err := rundir.RemoveDead(path); {
	case errors.Is(err, rundir.ErrServed):
		return nil, fmt.Errorf("%s: another device plug-in serves this resource", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the name may be another plug-in's by then
	return l, nil
}

// A file tells apart what had the same name one after another, without reading it. It is zero if
// there is nothing.
type file struct {
	device, inode uint64
	made          unix.Timespec // numbers of inodes are used again
	size          int64
}

func identify(path string) file {
	var st unix.Stat_t
	switch {
	case unix.Lstat(path, &st) != nil:
		return file{}
	case st.Mode&unix.S_IFMT == unix.S_IFDIR: // what is in it may change
		return file{device: st.Dev, inode: st.Ino}
	}
	return file{st.Dev, st.Ino, st.Mtim, st.Size}
}
