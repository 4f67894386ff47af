package cdi

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"softrdma/preload"
)

// A Store is a directory of the host with the files that containers mount, and the folders that they
// share. Its copies of the files are named by their contents, and never change.
type Store struct{ Dir string }

// Directories of a store.
const (
	copies  = "files"
	folders = "shared"
	partial = ".new-" // prefix of a copy that is not complete
)

// DefaultStore returns the store of this user.
func DefaultStore() (Store, error) {
	if os.Geteuid() == 0 {
		return Store{"/var/lib/softrdma"}, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return Store{filepath.Join(dir, "softrdma")}, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Store{}, err
	}
	return Store{filepath.Join(home, ".local", "share", "softrdma")}, nil
}

// Files returns the directory with the files of this build, which it makes if necessary, for containers
// without a specification. Remove keeps it.
func (s Store) Files() (dir string, err error) {
	parts, err := contents()
	if err != nil {
		return "", err
	}
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, err = s.files(parts); err != nil {
		return "", err
	}
	return dir, s.add(keptName, dir)
}

// Folder returns the directory that containers with a shared device of a kind have in common, as Files
// does.
func (s Store) Folder(kind string) (string, error) {
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	dir, err := s.folder(kind)
	if err != nil {
		return "", err
	}
	return dir, s.add(keptName, dir)
}

// folder is Folder under the lock, for a specification. Users of all containers may make names in the
// directory, and remove their own. Other users of the host cannot reach it: root of a container can leave
// set-user-ID files there.
func (s Store) folder(kind string) (string, error) {
	top := filepath.Join(s.Dir, folders)
	dir := filepath.Join(top, filepath.FromSlash(kind))
	if err := makeDirectory(filepath.Dir(dir)); err != nil {
		return "", err
	}
	if err := os.Chmod(top, 0o700); err != nil { // runtimes resolve the mount as the store's user
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777|fs.ModeSticky) // whatever the umask
}

// lock makes the store and waits until no other process changes it.
func (s Store) lock() (unlock func(), err error) {
	if err := makeDirectory(s.Dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: f.Name(), Err: err}, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// makeDirectory makes a directory that all users may read: containers run as any of them.
func makeDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // whatever the umask
}

// files is Files under the lock.
func (s Store) files(parts []part) (string, error) {
	dir := s.directory(parts)
	if complete(dir, parts) {
		return dir, nil
	}
	if err := makeDirectory(filepath.Dir(dir)); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), partial)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unfinished)
	for _, p := range parts {
		if err := writeFile(filepath.Join(unfinished, p.name), p.contents); err != nil {
			return "", err
		}
	}
	if err := errors.Join(os.Chmod(unfinished, 0o755), os.RemoveAll(dir)); err != nil { // one that was damaged
		return "", err
	}
	return dir, os.Rename(unfinished, dir)
}

// directory returns the directory of files with these contents.
func (s Store) directory(parts []part) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%s %d\n", p.name, len(p.contents))
		sum.Write(p.contents)
	}
	return filepath.Join(s.Dir, copies, hex.EncodeToString(sum.Sum(nil))[:32])
}

// Current returns the directory that Files makes.
func (s Store) Current() (string, error) {
	parts, err := contents()
	return s.directory(parts), err
}

// Exists reports whether a directory holds files for containers.
func Exists(files string) bool {
	for _, name := range []string{commandName, libraryName, engineName} {
		if info, err := os.Stat(filepath.Join(files, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// A part is one of the files.
type part struct {
	name     string
	contents []byte
}

// contents returns the files of this build.
func contents() ([]part, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := static(path, command); err != nil {
		return nil, err
	}
	library, err := preload.Library()
	if err != nil {
		return nil, err
	}
	f, _, err := preload.Engine()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	engine, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	parts := []part{{commandName, command}, {libraryName, library}, {engineName, engine}}
	for _, device := range Devices {
		parts = append(parts, part{device + EnvironmentFile, []byte(strings.Join(Edits(device, "", "").Env, "\n") + "\n")})
	}
	return parts, nil
}

// static returns an error if a program needs libraries, which the container may not have.
func static(path string, program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: expected a static program, which runs in every container, found one that needs libraries: build it with make build", path)
		}
	}
	return nil
}

// complete reports whether a directory holds the files as they were written.
func complete(dir string, parts []part) bool {
	for _, p := range parts {
		b, err := os.ReadFile(filepath.Join(dir, p.name))
		if err != nil || !bytes.Equal(b, p.contents) {
			return false
		}
	}
	return true
}

// writeFile writes a file that containers execute or load.
func writeFile(path string, contents []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if err == nil {
		err = f.Sync() // a name without contents would survive a power failure
	}
	return errors.Join(err, f.Close())
}
