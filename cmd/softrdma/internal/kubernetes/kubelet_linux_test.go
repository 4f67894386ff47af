//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"softrdma/cmd/softrdma/internal/clitest"
)

// A kubelet is the part of kubelet that knows device plug-ins. As the real one it empties its
// directory when it starts, connects to a plug-in before it answers Register, and watches the
// plug-in's devices until the connection ends.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	t   *testing.T
	dir string

	server *grpc.Server

	mu        sync.Mutex
	refuse    error
	asked     int // calls of Register
	resources map[string]*endpoint
}

// An endpoint is a plug-in that has registered a resource.
type endpoint struct {
	v1beta1.DevicePluginClient
	conn  *grpc.ClientConn
	lists []*v1beta1.ListAndWatchResponse
	ended bool
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{t: t, dir: dir}
	t.Cleanup(func() {
		k.stop()
		os.RemoveAll(dir)
	})
	return k
}

func (k *kubelet) start() {
	k.t.Helper()
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		os.Remove(filepath.Join(k.dir, e.Name()))
	}
	l, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resources, k.server = make(map[string]*endpoint), grpc.NewServer()
	v1beta1.RegisterRegistrationServer(k.server, k)
	go k.server.Serve(l)
}

func (k *kubelet) stop() {
	k.mu.Lock()
	server := k.server
	for _, e := range k.resources {
		e.conn.Close()
	}
	k.server = nil
	k.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

func (k *kubelet) Register(ctx context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.mu.Lock()
	k.asked++
	refuse := k.refuse
	k.mu.Unlock()
	switch {
	case refuse != nil:
		return nil, refuse
	case r.Version != "v1beta1" || r.Options == nil || r.Endpoint != filepath.Base(r.Endpoint):
		return nil, errors.New("unexpected registration")
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	e := &endpoint{DevicePluginClient: v1beta1.NewDevicePluginClient(conn), conn: conn}
	if _, err := e.GetDevicePluginOptions(ctx, &v1beta1.Empty{}, grpc.WaitForReady(true)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stream, err := e.ListAndWatch(context.Background(), &v1beta1.Empty{})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server == nil {
		return nil, errors.Join(errors.New("kubelet ends"), conn.Close())
	}
	if old := k.resources[r.ResourceName]; old != nil {
		old.conn.Close()
	}
	k.resources[r.ResourceName] = e
	go k.watch(e, stream)
	return &v1beta1.Empty{}, nil
}

func (k *kubelet) watch(e *endpoint, stream v1beta1.DevicePlugin_ListAndWatchClient) {
	for {
		list, err := stream.Recv()
		k.mu.Lock()
		e.ended = err != nil
		if err == nil {
			e.lists = append(e.lists, list)
		}
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(clitest.Timeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("expected %s within %v", what, clitest.Timeout)
		}
	}
}

// offers waits until a resource is offered with so many devices, all in one state of health.
func (k *kubelet) offers(name string, count int, health string) (e *endpoint) {
	k.t.Helper()
	eventually(k.t, health+" devices of "+name, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		if e = k.resources[name]; e == nil || e.ended || len(e.lists) == 0 {
			return false
		}
		devices := e.lists[len(e.lists)-1].Devices
		for _, d := range devices {
			if d.Health != health {
				return false
			}
		}
		return len(devices) == count
	})
	return e
}

// allocate asks for devices of a container each.
func (e *endpoint) allocate(t *testing.T, containers ...[]string) (*v1beta1.AllocateResponse, error) {
	t.Helper()
	r := &v1beta1.AllocateRequest{}
	for _, ids := range containers {
		r.ContainerRequests = append(r.ContainerRequests, &v1beta1.ContainerAllocateRequest{DevicesIds: ids})
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	return e.Allocate(ctx, r)
}

// quick lets a plug-in look at once.
var quick = pace{look: time.Millisecond, least: time.Millisecond, most: 10 * time.Millisecond, answer: clitest.Timeout}

// A testedPlugin is a plug-in that runs in the test.
type testedPlugin struct {
	*plugin
	end func()

	mu    sync.Mutex
	lines []string
}

// runPlugin runs a plug-in until end is called, at the latest at the end of the test.
func (k *kubelet) runPlugin(r resource, answer *v1beta1.ContainerAllocateResponse, h *health) *testedPlugin {
	ctx, cancel := context.WithCancel(context.Background())
	p := &testedPlugin{}
	p.plugin = &plugin{resource: r, pace: quick, dir: k.dir, answer: answer, health: h, log: p.logf}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	p.end = func() {
		cancel()
		<-done
	}
	k.t.Cleanup(p.end)
	return p
}
