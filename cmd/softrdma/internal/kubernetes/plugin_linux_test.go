//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"softrdma/internal/testenv"
)

var byName = &v1beta1.ContainerAllocateResponse{CdiDevices: []*v1beta1.CDIDevice{{Name: "softrdma/rdma=auto"}}}

func (p *testedPlugin) logf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// said returns how many lines contain a text.
func (p *testedPlugin) said(text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (p *testedPlugin) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q", text), func() bool { return p.said(text) > 0 })
}

func TestPluginOffersEachResource(t *testing.T) {
	k := newKubelet(t)
	k.start()
	resources, err := parseResources([]string{"softrdma/rdma=3", "rdma/hca_shared_devices_a"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHealth()
	for _, r := range resources {
		k.runPlugin(r, byName, h)
	}
	for _, r := range resources {
		e := k.offers(r.name, r.count, v1beta1.Healthy)
		var ids []string
		for _, d := range e.lists[0].Devices {
			ids = append(ids, d.ID)
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != r.count {
			t.Errorf("%s: expected %d names of devices, found %d", r.name, r.count, len(ids))
		}
		options, err := e.GetDevicePluginOptions(t.Context(), &v1beta1.Empty{})
		if err != nil || options.PreStartRequired || options.GetPreferredAllocationAvailable {
			t.Errorf("unexpected options %v, %v", options, err)
		}
		if _, err := e.GetPreferredAllocation(t.Context(), &v1beta1.PreferredAllocationRequest{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("a preferred allocation, which is not offered: expected Unimplemented, found %v", err)
		}
	}
}

func TestAllocateAnswersForEachContainer(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 4}
	k.runPlugin(r, byName, newHealth())
	e, ids := k.offers(r.name, r.count, v1beta1.Healthy), r.ids()
	a, err := e.allocate(t, ids[:1], ids[1:3])
	if err != nil || len(a.ContainerResponses) != 2 {
		t.Fatalf("expected two answers, found %v, %v", a, err)
	}
	for _, c := range a.ContainerResponses {
		if !proto.Equal(c, byName) {
			t.Errorf("expected %v, found %v", byName, c)
		}
	}
	if _, err := e.PreStartContainer(t.Context(), &v1beta1.PreStartContainerRequest{DevicesIds: ids[:1]}); err != nil {
		t.Error(err)
	}
}

func TestUnknownDevicesAreRefused(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 4}
	k.runPlugin(r, byName, newHealth())
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	for _, ids := range [][]string{
		nil, {""}, {"softrdma-4"}, {"softrdma-0", "softrdma-0"}, {"softrdma-0", "../etc/passwd"}, {strings.Repeat("x", 1<<20)},
	} {
		if _, err := e.allocate(t, []string{"softrdma-1"}, ids); status.Code(err) != codes.InvalidArgument || len(err.Error()) > 1000 {
			t.Errorf("Allocate of %.20q: expected InvalidArgument, found %.1000v", ids, err)
		}
		if _, err := e.PreStartContainer(t.Context(), &v1beta1.PreStartContainerRequest{DevicesIds: ids}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("PreStartContainer of %.20q: expected InvalidArgument, found %v", ids, err)
		}
	}
	if _, err := e.allocate(t, []string{"softrdma-1"}); err != nil {
		t.Errorf("after calls that were refused: %v", err)
	}
}

func TestHundredPodsGetDevicesAtOnce(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 100}
	k.runPlugin(r, byName, newHealth())
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	var pods sync.WaitGroup
	for _, id := range r.ids() {
		pods.Go(func() {
			if a, err := e.allocate(t, []string{id}); err != nil || !proto.Equal(a.ContainerResponses[0], byName) {
				t.Errorf("%s: %v, %v", id, a, err)
			}
		})
	}
	pods.Wait()
}

func TestPluginRegistersAgainWhenKubeletRestarts(t *testing.T) {
	k := newKubelet(t)
	r := resource{"softrdma/rdma", 2}
	p := k.runPlugin(r, byName, newHealth())
	p.says(t, "register with kubelet") // there is none yet
	for range 5 {
		k.start()
		k.offers(r.name, r.count, v1beta1.Healthy)
		k.stop()
	}
}

func TestPluginRegistersAgainWhenKubeletLeaves(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	k.runPlugin(r, byName, newHealth())
	for range 5 {
		e := k.offers(r.name, r.count, v1beta1.Healthy)
		e.conn.Close() // kubelet does not watch any more
		eventually(t, "another registration", func() bool { return k.offers(r.name, r.count, v1beta1.Healthy) != e })
	}
}

func TestPluginRegistersAgainWhenItsSocketIsGone(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	k.runPlugin(r, byName, newHealth())
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	if err := os.Remove(filepath.Join(k.dir, r.endpoint())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another registration", func() bool { return k.offers(r.name, r.count, v1beta1.Healthy) != e })
}

func TestPluginAsksAgainWhenKubeletRefuses(t *testing.T) {
	k := newKubelet(t)
	k.refuse = errors.New("not now")
	k.start()
	r := resource{"softrdma/rdma", 2}
	p := k.runPlugin(r, byName, newHealth())
	eventually(t, "three attempts", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.asked > 2
	})
	k.mu.Lock()
	k.refuse = nil
	k.mu.Unlock()
	k.offers(r.name, r.count, v1beta1.Healthy)
	if n := p.said("not now"); n != 1 {
		t.Errorf("expected one line for all refusals, found %d", n)
	}
}

func TestPluginReplacesTheSocketOfOneThatWasKilled(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.dir, r.endpoint()), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	k.runPlugin(r, byName, newHealth())
	k.offers(r.name, r.count, v1beta1.Healthy)
}

func TestPluginWaitsForAnotherOfTheSameResource(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	first := k.runPlugin(r, byName, newHealth())
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	first.says(t, "registered")
	second := k.runPlugin(r, byName, newHealth())
	second.says(t, "another device plug-in serves this resource")
	if k.offers(r.name, r.count, v1beta1.Healthy) != e || first.said("registered") != 1 {
		t.Error("the first plug-in was disturbed")
	}
	first.end()
	second.says(t, "registered")
	k.offers(r.name, r.count, v1beta1.Healthy)
}

func TestPluginLeavesFilesThatAreNoSockets(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	name := filepath.Join(k.dir, r.endpoint())
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.runPlugin(r, byName, newHealth()).says(t, "expected a socket")
	if b, err := os.ReadFile(name); err != nil || string(b) != "mine" {
		t.Errorf("the file was changed: %q, %v", b, err)
	}
}

func TestPluginThatEndsLeavesNoSocket(t *testing.T) {
	k := newKubelet(t)
	k.start()
	r := resource{"softrdma/rdma", 2}
	p := k.runPlugin(r, byName, newHealth())
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	p.end()
	eventually(t, "the end of the connection", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return e.ended
	})
	entries, err := os.ReadDir(k.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "kubelet.sock" {
		t.Errorf("expected kubelet's socket, found %v, %v", entries, err)
	}
}

func TestHealthFollowsTheFilesOfContainers(t *testing.T) {
	k := newKubelet(t)
	k.start()
	name := filepath.Join(t.TempDir(), "preload.so")
	var mu sync.Mutex // held while the file cannot be written
	n := &node{again: quick.least, install: func() ([]string, error) {
		if !mu.TryLock() {
			return nil, errors.New("the disk is full")
		}
		defer mu.Unlock()
		return []string{name}, os.WriteFile(name, []byte("library"), 0o600)
	}}
	if err := n.prepare(); err != nil {
		t.Fatal(err)
	}
	h, r := newHealth(), resource{"softrdma/rdma", 2}
	p := k.runPlugin(r, byName, h)
	e := k.offers(r.name, r.count, v1beta1.Healthy)
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { n.watch(ctx, quick.look, h, p.logf) })
	defer watch.Wait()
	defer cancel()
	for _, harm := range []func() error{
		func() error { return os.Remove(name) },
		func() error { return os.WriteFile(name, []byte("something else"), 0o600) },
		func() error { return os.Rename(name, name+".old") },
	} {
		mu.Lock()
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		k.offers(r.name, r.count, v1beta1.Unhealthy)
		if _, err := e.allocate(t, r.ids()[:1]); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), name) {
			t.Errorf("expected Unavailable with the name of the file, found %v", err)
		}
		mu.Unlock()
		k.offers(r.name, r.count, v1beta1.Healthy)
		if _, err := e.allocate(t, r.ids()[:1]); err != nil {
			t.Error(err)
		}
	}
	if p.said("the disk is full") == 0 {
		t.Error("nothing says why the files were not restored")
	}
}

func TestHealthFollowsAnInterface(t *testing.T) {
	testenv.Root(t, "makes an interface")
	testenv.Programs(t, "ip")
	name := fmt.Sprintf("srk%d", os.Getpid()%100000)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	n := &node{iface: name, install: func() ([]string, error) { return nil, nil }}
	is := func(expected string) {
		t.Helper()
		if err := n.check(); expected == "" && err != nil || !strings.Contains(text(err), expected) {
			t.Errorf("expected %q, found %v", expected, err)
		}
	}
	is("is gone")
	ip("link", "add", name, "type", "veth", "peer", "name", name+"p")
	defer exec.Command("ip", "link", "del", name).Run()
	is("is down")
	ip("link", "set", name, "up")
	is("")
	ip("link", "del", name)
	is("is gone")
}
