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
	"time"

	"github.com/google/renameio/v2/maybe"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// kinds matches the kinds of devices that the specification allows.
var kinds = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?$`)

// Files of a store with a path on each line.
const (
	recordName = "specs" // the specifications that were written
	keptName   = "kept"  // what containers were given without one
)

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
	before, pruneErr := s.named()
	files, err := s.files(parts)
	if err != nil {
		return "", err
	}
	folder, err := s.folder(kind)
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
	if err := s.add(recordName, path); err != nil { // first: a copy that is recorded is never removed too early
		return "", err
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		if err := makeDirectory(filepath.Dir(path)); err != nil {
			return "", err
		}
	}
	if err := writePublic(path, append(b, '\n')); err != nil {
		return "", err
	}
	if pruneErr == nil {
		s.prune(append(before, files))
	}
	return path, nil
}

// writePublic replaces a file that all users may read, whatever the umask.
func writePublic(path string, contents []byte) error {
	if err := maybe.WriteFile(path, contents, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
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
	recorded, err := s.lines(recordName)
	if err != nil {
		return nil, err
	}
	if spec, err := Read(path); errors.Is(err, fs.ErrNotExist) && slices.Contains(recorded, path) {
		if err := s.forget(path); err != nil { // it was removed by hand
			return nil, err
		}
		return s.clean()
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("expected a specification of %s in %s, found none: softrdma cdi list shows where they are", kind, path)
	} else if err != nil {
		return nil, err
	} else if spec.Kind != kind || Files(spec) == "" {
		return nil, fmt.Errorf("%s: expected a specification of softrdma for %s, found %s", path, kind, spec.Kind)
	}
	if err := errors.Join(os.Remove(path), s.forget(path)); err != nil {
		return nil, err
	}
	unused, err := s.clean()
	return append([]string{path}, unused...), err
}

// errUnseen says that a specification that was recorded, which may name anything, is not there.
var errUnseen = errors.New("expected the specifications that were written, one is missing")

// named returns the paths of the host that specifications name and that containers were given without
// one.
func (s Store) named() (paths []string, err error) {
	all, err := s.specifications()
	if err != nil {
		return nil, err
	}
	if paths, err = s.lines(keptName); err != nil {
		return nil, err
	}
	for _, path := range all {
		spec, err := Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errUnseen
		}
		if err != nil {
			return nil, err
		}
		for _, d := range spec.Devices {
			for _, m := range d.ContainerEdits.Mounts {
				paths = append(paths, m.HostPath)
			}
		}
	}
	return paths, nil
}

// clean removes what no specification names and no container was given without one, under the lock. It
// removes nothing while it does not see a specification that was recorded.
func (s Store) clean() (removed []string, err error) {
	used, err := s.named()
	if errors.Is(err, errUnseen) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.removeUnused(used, copies+"/*", folders+"/*/*")
}

// graceTime is how long a copy stays after its last specification: an engine may have read that before.
const graceTime = 10 * time.Minute

// prune removes copies that no specification names any more and that no container has mounted, under the
// lock. Named are those of now and of before the change. What it cannot remove stays until the next time.
func (s Store) prune(named []string) {
	found, err := filepath.Glob(filepath.Join(s.Dir, copies, "*"))
	if err != nil || len(found) < 2 {
		return
	}
	now := time.Now()
	used, all := mountedSomewhere(found)
	if !all {
		return
	}
	for _, path := range found {
		if slices.Contains(named, path) && os.Chtimes(path, now, now) != nil {
			return
		}
		if info, err := os.Stat(path); err != nil || now.Sub(info.ModTime()) < graceTime {
			used = append(used, path)
		}
	}
	_, _ = s.removeUnused(used, copies+"/*")
}

// initialPIDs is the first PID namespace of a system, from which all processes are seen. Its number is
// the same on every system.
const initialPIDs = "pid:[4026531836]"

// mountedSomewhere returns the directories of the store that are mounted for any process that this user
// may ask for, and whether it sees the processes of the whole system. Containers mount them at paths
// of their own, but what is mounted keeps its unique name.
func mountedSomewhere(dirs []string) (mounted []string, all bool) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDs {
		return nil, false
	}
	processes, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return nil, false
	}
	for _, path := range processes {
		mounts, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended, or is another user's
		}
		for _, dir := range dirs {
			if bytes.Contains(mounts, []byte("/"+filepath.Base(dir)+" ")) {
				mounted = append(mounted, dir)
			}
		}
	}
	return mounted, true
}

// removeUnused removes what is not used of the paths of the store that match a pattern.
func (s Store) removeUnused(used []string, patterns ...string) (removed []string, err error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			return removed, err
		}
		for _, path := range found {
			if slices.Contains(used, path) {
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
	recorded, err := s.lines(recordName)
	paths = append(paths, recorded...)
	slices.Sort(paths)
	return slices.Compact(paths), err
}

// lines returns the paths in a file of the store.
func (s Store) lines(name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' }), err
}

// add adds a path to a file of the store. Others stay, although this process may not see them: a device
// plug-in writes specifications in directories of its own.
func (s Store) add(name, path string) error {
	paths, err := s.lines(name)
	if err != nil || slices.Contains(paths, path) {
		return err
	}
	return s.write(name, append(paths, path))
}

// forget removes the path of a specification from the record.
func (s Store) forget(path string) error {
	paths, err := s.lines(recordName)
	if err != nil {
		return err
	}
	return s.write(recordName, slices.DeleteFunc(paths, func(p string) bool { return p == path }))
}

func (s Store) write(name string, paths []string) error {
	return writePublic(filepath.Join(s.Dir, name), []byte(strings.Join(append(paths, ""), "\n")))
}
