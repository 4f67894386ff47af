//go:build kubernetes

package kubernetes

import (
	"errors"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/cdi"
)

// run serves kubelet until a signal ends it.
func run(cmd *cobra.Command, s *options) error {
	resources, err := parseResources(s.resources)
	if err != nil {
		return err
	}
	if s.inject != injectCDI && s.inject != injectMounts {
		return cli.UsageErrorf("--inject: expected %s or %s, found %q", injectCDI, injectMounts, s.inject)
	}
	if st, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() {
		return cli.UsageErrorf("--plugin-dir: expected the directory of kubelet's socket, found none at %s", s.dir)
	}
	for _, r := range resources {
		if path := filepath.Join(s.dir, r.endpoint()); len(path) > mostPath {
			return cli.UsageErrorf("--resource %s: expected a name whose socket has a path of at most %d bytes, found %s", r.name, mostPath, path)
		}
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	n := &node{install: files.install, iface: s.iface, again: usualPace.most}
	if err := n.prepare(); err != nil {
		return err
	}
	ctx, h, l := cmd.Context(), newHealth(), log.New(cmd.OutOrStdout(), "", 0)
	h.set(n.check())
	answer := files.answer(s.inject) // watch may install the files again, which are the same then
	var all sync.WaitGroup
	all.Go(func() { n.watch(ctx, usualPace.look, h, l.Printf) })
	for _, r := range resources {
		p := &plugin{resource: r, pace: usualPace, dir: s.dir, answer: answer, health: h, log: l.Printf}
		all.Go(func() { p.run(ctx) })
	}
	all.Wait()
	return cli.ErrSignalled
}

// files are what containers of the node mount, and the description of it for container runtimes.
type files struct {
	store  cdi.Store
	output string // for the specification, or ""
	device string // of the kind cdi.DefaultKind

	dir, folder string // of the host, once installed
}

// files returns the files that the flags ask for.
func (s *options) files() (f *files, err error) {
	f = &files{device: cdi.Auto}
	if s.shared {
		f.device = cdi.Shared
	}
	if s.inject == injectCDI {
		if f.output = s.output; f.output == "" {
			if f.output, err = cdi.OutputDirectory(); err != nil {
				return nil, err
			}
		}
	}
	if s.store != "" {
		f.store.Dir, err = filepath.Abs(s.store)
		return f, err
	}
	f.store, err = cdi.DefaultStore()
	return f, err
}

// install makes the files, and returns the paths of what must not change while containers start.
func (f *files) install() (paths []string, err error) {
	if f.output != "" {
		spec, err := f.store.Generate(f.output, cdi.DefaultKind)
		if err != nil {
			return nil, err
		}
		paths = append(paths, spec)
		written, err := cdi.Read(spec)
		if err != nil {
			return nil, err
		}
		f.dir = cdi.Files(written)
	} else if f.dir, err = f.store.Files(); err != nil {
		return nil, err
	}
	if f.device == cdi.Shared {
		if f.folder, err = f.store.Folder(cdi.DefaultKind); err != nil {
			return nil, err
		}
		paths = append(paths, f.folder)
	}
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		paths = append(paths, filepath.Join(f.dir, e.Name()))
	}
	return paths, err
}

// answer returns what kubelet tells the runtime about a container.
func (f *files) answer(inject string) *v1beta1.ContainerAllocateResponse {
	if inject == injectCDI {
		return &v1beta1.ContainerAllocateResponse{CdiDevices: []*v1beta1.CDIDevice{{Name: cdi.DefaultKind + "=" + f.device}}}
	}
	edits, answer := cdi.Edits(f.device, f.dir, f.folder), &v1beta1.ContainerAllocateResponse{Envs: make(map[string]string)}
	for _, v := range edits.Env {
		name, value, _ := strings.Cut(v, "=")
		answer.Envs[name] = value
	}
	for _, m := range edits.Mounts {
		answer.Mounts = append(answer.Mounts, &v1beta1.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: slices.Contains(m.Options, "ro"),
		})
	}
	return answer
}
