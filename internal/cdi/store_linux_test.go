package cdi

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/testenv"
)

// build returns the files of a build that has a certain text.
func build(text string) []part {
	return []part{{commandName, []byte("command " + text)}, {libraryName, []byte("library " + text)}, {engineName, []byte("engine " + text)}}
}

// generate writes the specification of a kind for a build, and returns the directory of its files.
func generate(t *testing.T, s Store, dir, kind, text string) (files string) {
	t.Helper()
	path, err := s.generate(dir, kind, build(text))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return Files(spec)
}

func TestGenerateGivesContainersFilesThatTheyCanOnlyRead(t *testing.T) {
	s := Store{t.TempDir()}
	files := generate(t, s, t.TempDir(), DefaultKind, "1")
	if !Exists(files) {
		t.Fatalf("expected files in %s", files)
	}
	for _, p := range build("1") {
		info, err := os.Stat(filepath.Join(files, p.name))
		if err != nil || info.Mode().Perm() != 0o555 {
			t.Errorf("%s: expected mode 0555, found %v, %v", p.name, info.Mode(), err)
		}
	}
	info, err := os.Stat(filepath.Join(s.Dir, folders, "softrdma", "rdma"))
	if err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("expected a shared folder with mode 1777, found %v, %v", info, err)
	}
}

func TestGenerateAtTheSameTimeWritesWholeFilesOnce(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			text, kind := "1", DefaultKind
			if i%2 == 1 {
				text, kind = "2", "softrdma/other"
			}
			path, err := s.generate(dir, kind, build(text))
			if err != nil {
				t.Error(err)
				return
			}
			spec, err := Read(path)
			if err != nil || !complete(Files(spec), build(text)) {
				t.Errorf("%s: expected the files of build %s, found %v, %v", path, text, spec, err)
			}
		})
	}
	wait.Wait()
	entries, err := os.ReadDir(filepath.Join(s.Dir, copies))
	if err != nil || len(entries) != 2 {
		t.Errorf("expected a directory for each of two builds, found %v, %v", entries, err)
	}
	if paths, err := s.lines(recordName); err != nil || len(paths) != 2 {
		t.Errorf("expected a record of two specifications, found %q, %v", paths, err)
	}
}

func TestGenerateReplacesDamagedFiles(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	files := generate(t, s, dir, DefaultKind, "1")
	if err := os.Remove(filepath.Join(files, libraryName)); err != nil {
		t.Fatal(err)
	}
	if again := generate(t, s, dir, DefaultKind, "1"); again != files || !complete(files, build("1")) {
		t.Errorf("expected whole files in %s, found %s", files, again)
	}
}

func TestRemoveKeepsWhatAnotherSpecificationNames(t *testing.T) {
	s, dir, elsewhere := Store{t.TempDir()}, t.TempDir(), t.TempDir()
	first := generate(t, s, dir, DefaultKind, "1")
	second := generate(t, s, dir, DefaultKind, "2") // an upgrade
	generate(t, s, elsewhere, "softrdma/team", "2")
	if !Exists(first) {
		t.Error("generate removed files that containers may use")
	}
	leftover := filepath.Join(s.Dir, copies, partial+"1")
	if err := os.Mkdir(leftover, 0o700); err != nil { // of a generate that was killed
		t.Fatal(err)
	}
	folder := filepath.Join(s.Dir, folders, "softrdma", "rdma")
	if removed, err := s.Remove(dir, DefaultKind); err != nil || !slices.Equal(removed, []string{filepath.Join(dir, "softrdma-rdma.json"), first, leftover, folder}) &&
		!slices.Equal(removed, []string{filepath.Join(dir, "softrdma-rdma.json"), leftover, first, folder}) {
		t.Errorf("found %q removed, %v", removed, err)
	}
	if Exists(first) || !Exists(second) {
		t.Errorf("expected %s to be gone and %s to stay", first, second)
	}
	if removed, err := s.Remove(elsewhere, "softrdma/team"); err != nil || !slices.Contains(removed, second) {
		t.Errorf("expected %s to be removed, found %q, %v", second, removed, err)
	}
	if _, err := s.Remove(elsewhere, "softrdma/team"); err == nil || !strings.Contains(err.Error(), "found none") {
		t.Errorf("expected a refusal, found %v", err)
	}
}

// age makes a copy one that was named by no specification for some time.
func age(t *testing.T, copies ...string) {
	t.Helper()
	for _, dir := range copies {
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-graceTime)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGenerateRemovesCopiesThatNothingNamesAnyMore(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	first, team := generate(t, s, dir, DefaultKind, "1"), generate(t, s, t.TempDir(), "softrdma/team", "2")
	age(t, first, team)
	generate(t, s, dir, DefaultKind, "3")
	if !Exists(first) {
		t.Error("an engine that has just read the last specification finds no files")
	}
	age(t, first, team)
	last := generate(t, s, dir, DefaultKind, "4")
	if _, all := mountedSomewhere(nil); Exists(first) == all {
		t.Errorf("a copy that nothing names: expected %v, found %v", !all, all)
	}
	if !Exists(team) || !Exists(last) {
		t.Error("generate removed files that a specification names")
	}
}

// What a container has mounted stays for the programs that it starts later.
func TestGenerateKeepsCopiesThatContainersHaveMounted(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	first := generate(t, s, dir, DefaultKind, "1")
	container := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs none /mnt && mkdir /mnt/softrdma && mount --bind "$0" /mnt/softrdma && echo ready && cat && cat /mnt/softrdma/`+libraryName, first)
	in, err := container.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := container.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		_ = container.Wait()
		testenv.Lacks(t, "user and mount namespaces")
	}
	generate(t, s, dir, DefaultKind, "2")
	age(t, first)
	generate(t, s, dir, DefaultKind, "3")
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := io.ReadAll(lines); err != nil || string(found) != "library 1" {
		t.Errorf("expected the container's library, found %q, %v", found, err)
	}
	if err := container.Wait(); err != nil {
		t.Error(err)
	}
	generate(t, s, dir, DefaultKind, "4")
	if _, all := mountedSomewhere(nil); Exists(first) == all {
		t.Errorf("after the container: expected %v, found %v", !all, all)
	}
}

// Root of a container can leave set-user-ID files in the shared folder.
func TestSharedFolderIsOutOfReachOfOtherUsers(t *testing.T) {
	s := Store{t.TempDir()}
	dir, err := s.Folder(DefaultKind)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{filepath.Join(s.Dir, folders): 0o700, dir: 0o777} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: found %v, %v, expected %v", path, st.Mode(), err, mode)
		}
	}
}

func TestSpecificationIsForAllUsersWhateverTheUmask(t *testing.T) {
	s, dir := Store{t.TempDir()}, filepath.Join(t.TempDir(), "cdi")
	old := unix.Umask(0o077)
	generate(t, s, dir, DefaultKind, "1")
	unix.Umask(old)
	for path, mode := range map[string]fs.FileMode{dir: 0o755, filepath.Join(dir, "softrdma-rdma.json"): 0o644, filepath.Join(s.Dir, recordName): 0o644} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: found %v, %v, expected %v", path, st.Mode(), err, mode)
		}
	}
}

// A device plug-in in a pod writes in directories that other processes do not see, and containers are given
// files without a specification.
func TestRemoveKeepsWhatItDoesNotSee(t *testing.T) {
	s, dir, elsewhere := Store{t.TempDir()}, t.TempDir(), t.TempDir()
	first := generate(t, s, dir, DefaultKind, "1")
	second := generate(t, s, elsewhere, "softrdma/pods", "2")
	hidden := elsewhere + ".hidden"
	if err := os.Rename(elsewhere, hidden); err != nil {
		t.Fatal(err)
	}
	generate(t, s, dir, DefaultKind, "3")
	if removed, err := s.Remove(dir, DefaultKind); err != nil || len(removed) != 1 || !Exists(first) || !Exists(second) {
		t.Errorf("found %q removed, %v", removed, err)
	}
	folder, err := s.Folder("softrdma/flags")
	if err != nil {
		t.Fatal(err)
	}
	// The specification was removed by hand.
	removed, err := s.Remove(elsewhere, "softrdma/pods")
	if err != nil || !slices.Contains(removed, first) || !slices.Contains(removed, second) || slices.Contains(removed, folder) {
		t.Errorf("found %q removed, %v", removed, err)
	}
}

func TestSpecificationsOfOthersStay(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	path := filepath.Join(dir, "softrdma-rdma.json")
	for _, text := range []string{`{"cdiVersion":"0.3.0","kind":"softrdma-rdma/x"}`, `{"cdiVersion":"0.3.0","kind":"softrdma/rdma"}`, "no JSON"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Remove(dir, DefaultKind); err == nil {
			t.Errorf("%s was removed", text)
		}
		var spec struct{ Kind string }
		if err := json.Unmarshal([]byte(text), &spec); err == nil && spec.Kind == DefaultKind {
			continue
		}
		if _, err := s.generate(dir, DefaultKind, build("1")); err == nil {
			t.Errorf("%s was replaced", text)
		}
	}
	if paths, err := s.List(); err != nil || slices.Contains(paths, path) {
		t.Errorf("found %q, %v", paths, err)
	}
}

func TestKindsThatAreNoneAreRefused(t *testing.T) {
	s, dir := Store{t.TempDir()}, t.TempDir()
	for _, kind := range []string{"", "rdma", "a/b/c", "../x/y", "softrdma/", "/rdma", "softrdma/../x", "soft rdma/x", "softrdma/rdma=auto", "1/x", "a./b"} {
		if path, err := s.generate(dir, kind, build("1")); err == nil {
			t.Errorf("%q: expected a refusal, found %s", kind, path)
		}
	}
	if paths, err := s.lines(recordName); err != nil || len(paths) > 0 {
		t.Errorf("found %q, %v", paths, err)
	}
}
