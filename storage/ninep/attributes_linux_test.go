package ninep_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"

	"softrdma/storage/internal/channel"
)

// TestTimesOfLinksAreTheirOwn: cp and tar set the times of each link that they copy, wherever it leads.
func TestTimesOfLinksAreTheirOwn(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "served")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o777))
	old := time.Unix(1e9, 5000)
	for _, name := range []string{"secret", "served/file"} {
		must(os.WriteFile(filepath.Join(outside, name), nil, 0o666))
		must(os.Chtimes(filepath.Join(outside, name), old, old))
	}
	links := map[string]string{"link": "file", "dangling": "none", "relative": "../secret", "absolute": filepath.Join(outside, "secret")}
	for name, target := range links {
		must(os.Symlink(target, filepath.Join(dir, name)))
	}
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		times := p9.SetAttrMask{MTime: true, MTimeNotSystemTime: true, ATime: true, ATimeNotSystemTime: true}
		for name := range links {
			if err := walk(t, root, name).SetAttr(times, p9.SetAttr{ATimeSeconds: 2e9, MTimeSeconds: 2e9, MTimeNanoSeconds: 7000}); err != nil {
				t.Errorf("the times of the link %s: %v", name, err)
			}
		}
	})
	for name := range links {
		info, err := os.Lstat(filepath.Join(dir, name))
		must(err)
		if want := time.Unix(2e9, 7000); !info.ModTime().Equal(want) {
			t.Errorf("the link %s: expected the time %v, found %v", name, want, info.ModTime())
		}
	}
	for _, name := range []string{"secret", "served/file"} {
		info, err := os.Stat(filepath.Join(outside, name))
		must(err)
		if !info.ModTime().Equal(old) {
			t.Errorf("the time of %s, to which a link leads, has changed to %v", name, info.ModTime())
		}
	}
}

// TestTimeOfOpenFileIsSetWhateverItsName: a program of the server's system renames it, and makes another.
func TestTimeOfOpenFileIsSetWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	name, moved := filepath.Join(dir, "file"), filepath.Join(dir, "moved")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(name, nil, 0o644))
	old, set := time.Unix(1e9, 0), time.Unix(2e9, 0)
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		f := walk(t, root, "file")
		if _, _, err := f.Open(p9.ReadOnly); err != nil {
			t.Fatal(err)
		}
		must(os.Rename(name, moved))
		must(os.WriteFile(name, nil, 0o644))
		must(os.Chtimes(name, old, old))
		must(f.SetAttr(p9.SetAttrMask{MTime: true, MTimeNotSystemTime: true}, p9.SetAttr{MTimeSeconds: 2e9}))
		for path, want := range map[string]time.Time{name: old, moved: set} {
			if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(want) {
				t.Errorf("%s: expected the time %v, found %v, %v", path, want, info.ModTime(), err)
			}
		}
		must(f.Close())
	})
}

// TestModesThatClientsSet: a directory for everyone's files keeps its bit, and no program gets the server's user.
func TestModesThatClientsSet(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "all"), 0o755); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		if err := walk(t, root, "all").SetAttr(p9.SetAttrMask{Permissions: true}, p9.SetAttr{Permissions: 0o7777}); err != nil {
			t.Error(err)
		}
	})
	if info, err := os.Stat(filepath.Join(dir, "all")); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&(os.ModeSticky|os.ModeSetuid|os.ModeSetgid) != os.ModeSticky {
		t.Errorf("found the mode %v, %v", info.Mode(), err)
	}
}

// TestCreationFindsTheFileOfAnotherClient: two programs that open a name to append to it, and make it if it is not
// there, both get it. One that wants a new file does not, and no link is followed.
func TestCreationFindsTheFileOfAnotherClient(t *testing.T) {
	const exclusive, truncate = p9.OpenFlags(0o200), p9.OpenFlags(0o1000)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("of another"), 0o666), os.Symlink("file", link), os.Mkdir(filepath.Join(dir, "sub"), 0o777)); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		for _, x := range []struct {
			name string
			mode p9.OpenFlags
			want error
		}{
			{"file", p9.ReadWrite | exclusive, linux.EEXIST},
			{"link", p9.ReadWrite, linux.EEXIST},
			{"sub", p9.ReadWrite, linux.EEXIST},
		} {
			if _, _, _, err := walk(t, root).Create(x.name, x.mode, 0o644, 0, 0); !errors.Is(err, x.want) {
				t.Errorf("%s: expected %v, found %v", x.name, x.want, err)
			}
		}
		f, _, _, err := walk(t, root).Create("file", p9.ReadWrite, 0o644, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 20)
		if n, err := f.ReadAt(b, 0); err != nil || string(b[:n]) != "of another" {
			t.Errorf("found %q, %v", b[:n], err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if f, _, _, err = walk(t, root).Create("file", p9.WriteOnly|truncate, 0o644, 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if b, err := os.ReadFile(file); err != nil || string(b) != "new" {
		t.Errorf("found %q, %v", b, err)
	}
	if info, err := os.Stat(file); err != nil || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Error(err)
	}
}
