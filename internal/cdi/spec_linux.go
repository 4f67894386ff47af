package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2/maybe"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// kinds matches the kinds of devices that the specification allows.
var kinds = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?$`)

// recordName is the file of a store that lists the specifications which were written.
const recordName = "specs"

// systemDirectories are those in which runtimes look for specifications, and userDirectory that of
// Docker's rootless mode.
var systemDirectories = []string{"/etc/cdi", "/var/run/cdi"}

// OutputDirectory returns the directory to which this user writes specifications.
func OutputDirectory() (string, error) {
	if os.Geteuid() == 0 {
		return systemDirectories[0], nil
	}
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "cdi"), err
}

// specPath returns the path of a kind's specification in a directory, as the CDI specification names it.
func specPath(dir, kind string) (string, error) {
	if !kinds.MatchString(kind) {
		return "", fmt.Errorf("kind of devices: expected VENDOR/CLASS of letters, digits, _ and -, such as %s, found %q", DefaultKind, kind)
	}
	dir, err := filepath.Abs(dir)
	return filepath.Join(dir, strings.ReplaceAll(kind, "/", "-")+".json"), err
}

// Generate makes the files of this build available to containers, and writes the specification of a
// kind of devices to a directory. It returns the path of the specification.
func (s Store) Generate(dir, kind string) (path string, err error) {
	parts, err := contents()
	if err != nil {
		return "", err
	}
	return s.generate(dir, kind, parts)
}

func (s Store) generate(dir, kind string, parts []part) (path string, err error) {
	if path, err = specPath(dir, kind); err != nil {
		return "", err
	}
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if old, err := Read(path); err == nil && old.Kind != kind {
		return "", fmt.Errorf("%s: expected a specification of %s, found %s: use another directory", path, kind, old.Kind)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	files, err := s.files(parts)
	if err != nil {
		return "", err
	}
	folder, err := s.Folder(kind)
	if err != nil {
		return "", err
	}
	spec := &specs.Spec{Kind: kind}
	for _, device := range Devices {
		spec.Devices = append(spec.Devices, specs.Device{Name: device, ContainerEdits: Edits(device, files, folder)})
	}
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return "", err
	}
	if err := s.record(path); err != nil { // first: a copy that is recorded is never removed too early
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, maybe.WriteFile(path, append(b, '\n'), 0o644)
}

// Read reads a specification.
func Read(path string) (*specs.Spec, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var spec specs.Spec
	if err := json.Unmarshal(b, &spec); err != nil {
		return nil, fmt.Errorf("%s: expected a CDI specification in JSON: %w", path, err)
	}
	return &spec, nil
}

// Files returns the directory of the host that a specification of softrdma gives to containers, ""
// if it is none of softrdma's.
func Files(spec *specs.Spec) string {
	for _, d := range spec.Devices {
		for _, m := range d.ContainerEdits.Mounts {
			if m.ContainerPath == filesPath {
				return m.HostPath
			}
		}
	}
	return ""
}

// List returns the paths of softrdma's specifications: those in the directories in which runtimes
// look, and those that this store has written elsewhere.
func (s Store) List() (paths []string, err error) {
	all, err := s.specifications()
	if err != nil {
		return nil, err
	}
	for _, path := range all {
		if spec, err := Read(path); err == nil && Files(spec) != "" {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Remove removes the specification of a kind from a directory, and what no specification names: old
// copies of files and shared folders. It returns the paths that it removed.
func (s Store) Remove(dir, kind string) (removed []string, err error) {
	path, err := specPath(dir, kind)
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if spec, err := Read(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("expected a specification of %s in %s, found none: softrdma cdi list shows where they are", kind, path)
	} else if err != nil {
		return nil, err
	} else if spec.Kind != kind || Files(spec) == "" {
		return nil, fmt.Errorf("%s: expected a specification of softrdma for %s, found %s", path, kind, spec.Kind)
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	unused, err := s.clean()
	return append([]string{path}, unused...), err
}

// clean removes what no specification names, under the lock.
func (s Store) clean() (removed []string, err error) {
	paths, err := s.specifications()
	if err != nil {
		return nil, err
	}
	var named []byte
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err // it may name any copy
		}
		named = append(named, b...)
	}
	for _, pattern := range []string{copies + "/*", copies + "/" + partial + "*", folders + "/*/*"} {
		found, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			return removed, err
		}
		for _, path := range found {
			if bytes.Contains(named, []byte(`"`+path+`"`)) {
				continue
			}
			if err := os.RemoveAll(path); err != nil {
				return removed, err
			}
			removed = append(removed, path)
		}
	}
	return removed, nil
}

// specifications returns the paths of all specifications that may name files of this store.
func (s Store) specifications() (paths []string, err error) {
	dirs := slices.Clone(systemDirectories)
	if own, err := OutputDirectory(); err == nil {
		dirs = append(dirs, own)
	}
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	recorded, err := s.recorded()
	paths = append(paths, recorded...)
	slices.Sort(paths)
	return slices.Compact(paths), err
}

// recorded returns the paths of the specifications that this store has written.
func (s Store) recorded() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.Dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' }), err
}

// record notes the path of a specification, and forgets those that are gone.
func (s Store) record(path string) error {
	old, err := s.recorded()
	if err != nil {
		return err
	}
	paths := []string{path}
	for _, p := range old {
		if _, err := os.Lstat(p); p != path && !errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, p)
		}
	}
	return maybe.WriteFile(filepath.Join(s.Dir, recordName), []byte(strings.Join(paths, "\n")+"\n"), 0o644)
}
