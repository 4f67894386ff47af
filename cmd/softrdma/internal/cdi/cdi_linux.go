package cdi

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/cdi"
)

// place returns the store of the flags and the directory of specifications.
func (o *options) place() (s cdi.Store, dir string, err error) {
	if s, err = cdi.DefaultStore(); err != nil && o.store == "" {
		return s, "", err
	}
	if o.store != "" {
		if s.Dir, err = filepath.Abs(o.store); err != nil {
			return s, "", err
		}
	}
	if o.output != "" {
		return s, o.output, nil
	}
	dir, err = cdi.OutputDirectory()
	return s, dir, err
}

func generate(cmd *cobra.Command, o *options) error {
	store, dir, err := o.place()
	if err != nil {
		return err
	}
	path, err := store.Generate(dir, o.kind)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, path)
	for _, device := range cdi.Devices {
		fmt.Fprintf(out, "  --device %s=%s\n", o.kind, device)
	}
	return nil
}

func list(cmd *cobra.Command, o *options) error {
	store, _, err := o.place()
	if err != nil {
		return err
	}
	paths, err := store.List()
	if err != nil {
		return err
	}
	current, err := store.Current()
	if err != nil {
		return err
	}
	t := cli.NewTable("DEVICE", "SPECIFICATION", "FILES", "STATE")
	for _, path := range paths {
		spec, err := cdi.Read(path)
		if err != nil {
			return err
		}
		files := cdi.Files(spec)
		for _, d := range spec.Devices {
			t.Row(spec.Kind+"="+d.Name, path, files, state(files, current))
		}
	}
	if len(paths) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "softrdma: no specification: write one with softrdma cdi generate")
		return nil
	}
	return t.Print(cmd.OutOrStdout())
}

// state says what is in a directory of files.
func state(files, current string) string {
	switch {
	case files == current && cdi.Exists(files):
		return "current"
	case cdi.Exists(files):
		return "old"
	}
	return "missing: run softrdma cdi generate"
}

func remove(cmd *cobra.Command, o *options) error {
	store, dir, err := o.place()
	if err != nil {
		return err
	}
	removed, err := store.Remove(dir, o.kind)
	for _, path := range removed {
		fmt.Fprintln(cmd.OutOrStdout(), "removed", path)
	}
	return err
}

func flags(cmd *cobra.Command, o *options, device string) error {
	if !slices.Contains(cdi.Devices, device) {
		return cli.UsageErrorf("expected a device of %s, found %q", strings.Join(cdi.Devices, " and "), device)
	}
	store, _, err := o.place()
	if err != nil {
		return err
	}
	files, err := store.Files()
	if err != nil {
		return err
	}
	var folder string
	if device == cdi.Shared {
		if folder, err = store.Folder(o.kind); err != nil {
			return err
		}
	}
	words := []string{"--env-file", filepath.Join(files, device+cdi.EnvironmentFile)}
	for _, m := range cdi.Edits(device, files, folder).Mounts {
		if o.exec {
			break // the container has the mounts
		}
		options := m.Options[:1] // ro or rw
		if o.podman {
			options = m.Options[:len(m.Options)-1] // all but bind
		}
		words = append(words, "--volume", m.HostPath+":"+m.ContainerPath+":"+strings.Join(options, ","))
	}
	fmt.Fprintln(cmd.OutOrStdout(), strings.Join(words, " "))
	return nil
}
