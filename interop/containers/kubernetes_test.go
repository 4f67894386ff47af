//go:build interop && linux

package containers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubeletDir is in a file system of the test alone, and so are the other directories of a node.
const kubeletDir = "/run/kubelet"

// A registry is the part of kubelet with which device plug-ins register.
type registry struct {
	v1beta1.UnimplementedRegistrationServer
	requests chan *v1beta1.RegisterRequest
}

func (r *registry) Register(_ context.Context, q *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	r.requests <- q
	return &v1beta1.Empty{}, nil
}

// newRegistry serves kubelet's socket.
func newRegistry(t *testing.T) *registry {
	t.Helper()
	if err := os.MkdirAll(kubeletDir, 0o750); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", kubeletDir+"/kubelet.sock")
	if err != nil {
		t.Fatal(err)
	}
	r, server := &registry{requests: make(chan *v1beta1.RegisterRequest, 10)}, grpc.NewServer()
	v1beta1.RegisterRegistrationServer(server, r)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return r
}

// confined runs a program with the rights that the DaemonSet gives it: root without a capability, on
// a root that is read-only.
const confined = `mount -o remount,bind,ro / && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs -- "$@"`

// startPlugin starts the device plug-in.
func (e *engine) startPlugin(flags ...string) *exec.Cmd {
	e.t.Helper()
	args := concat([]string{"--mount", "sh", "-c", confined, "sh", e.softrdma, "kubernetes", "device-plugin",
		"--plugin-dir", kubeletDir, "--store", "/run/store", "--output", "/run/cdi", "--resource", "rdma/hca_shared_devices_a=2"}, flags)
	c := exec.Command("unshare", args...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// allocate waits for the plug-in, and asks it for a device as kubelet does.
func (r *registry) allocate(t *testing.T) *v1beta1.ContainerAllocateResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel) // kubelet watches as long as the plug-in runs
	var request *v1beta1.RegisterRequest
	select {
	case request = <-r.requests:
	case <-ctx.Done():
		t.Fatal("the plug-in does not register")
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(kubeletDir, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	plugin := v1beta1.NewDevicePluginClient(conn)
	stream, err := plugin.ListAndWatch(ctx, &v1beta1.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil || request.ResourceName != "rdma/hca_shared_devices_a" || len(list.Devices) != 2 || list.Devices[0].Health != v1beta1.Healthy {
		t.Fatalf("unexpected devices %v of %s, %v", list, request.ResourceName, err)
	}
	answer, err := plugin.Allocate(ctx, &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: []string{list.Devices[0].ID}}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.ContainerResponses[0]
}

// flagsOf returns podman's flags for what kubelet passes to a runtime.
func flagsOf(a *v1beta1.ContainerAllocateResponse) (flags []string) {
	for _, d := range a.CdiDevices {
		flags = append(flags, "--device", d.Name)
	}
	for name, value := range a.Envs {
		flags = append(flags, "--env", name+"="+value)
	}
	for _, m := range a.Mounts {
		volume := m.HostPath + ":" + m.ContainerPath
		if m.ReadOnly {
			volume += ":ro"
		}
		flags = append(flags, "--volume", volume)
	}
	return flags
}

// The plug-in runs with the rights of its DaemonSet, and containers with its answer and nothing else.
func TestContainersWithTheAnswerOfTheDevicePlugin(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	r := newRegistry(t)
	for _, c := range []struct {
		name          string
		plugin, flags []string
	}{
		{"CDI", nil, nil},
		{"mounts", []string{"--inject", "mounts"}, nil},
		{"shared mounts", []string{"--inject", "mounts", "--shared"}, []string{"--env", "SOFTRDMA_SAME_HOST=require"}},
	} {
		plugin := e.startPlugin(c.plugin...)
		answer := r.allocate(t)
		if len(answer.Devices)+len(answer.Annotations) > 0 || (len(answer.CdiDevices) == 0) == (len(answer.Mounts) == 0) {
			t.Errorf("%s: unexpected answer %v", c.name, answer)
		}
		out, err := e.pair(hostImage, concat(flagsOf(answer), c.flags), writeServer, writeClient)
		if err != nil || !strings.Contains(out, written) {
			t.Errorf("%s: %v, expected %q in its output, found:\n%s", c.name, err, written, out)
		}
		if err := plugin.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := plugin.Wait(); err != nil {
			t.Errorf("%s: the plug-in did not end in order: %v", c.name, err)
		}
		if most := plugin.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > 256<<10 {
			t.Errorf("%s: the plug-in took %d KiB of memory, more than the limit of the DaemonSet", c.name, most)
		} else {
			t.Logf("%s: the plug-in took %d KiB of memory", c.name, most)
		}
	}
}
