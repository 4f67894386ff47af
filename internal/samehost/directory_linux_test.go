package samehost

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"softrdma/internal/reason"
)

func TestOpenRefuses(t *testing.T) {
	open := func(cfg Config) error {
		d, err := newDevice(cfg)
		if err == nil {
			d.close()
		}
		return err
	}
	before := holding(t)
	local := addr("127.0.0.1:4791")
	wantReason(t, open(Config{Local: local, Mode: Off}), reason.HostOff)
	wantReason(t, open(Config{Local: local, Lanes: MaxLanes + 1}), reason.Argument)
	wantReason(t, open(Config{Local: local, Dir: "/proc/nothing/here"}), reason.HostDirectory)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantReason(t, open(Config{Local: local, Dir: file}), reason.HostDirectory)
	wide := t.TempDir()
	if err := os.Chmod(wide, 0o777); err != nil {
		t.Fatal(err)
	}
	wantReason(t, open(Config{Local: local, Dir: wide}), reason.HostDirectoryMode)
	wantReason(t, open(Config{Local: local, Dir: t.TempDir(), Allow: []string{"no such user"}}), reason.Argument)
	if os.Geteuid() == 0 {
		other := t.TempDir()
		if err := os.Chown(other, 12345, -1); err != nil {
			t.Fatal(err)
		}
		wantReason(t, open(Config{Local: local, Dir: other}), reason.HostDirectoryOwner)
	}
	unchanged(t, before)
}

func TestDirectoryIsMadePrivateAndSharedOnesAreAccepted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "host")
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791")})
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory is %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, d.Name())); err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket is %v, %v", st, err)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	d = openDevice(t, Config{Dir: shared, Local: addr("127.0.0.1:4791"), Allow: []string{"1"}})
	if st, err := os.Stat(filepath.Join(shared, d.Name())); err != nil || st.Mode() != os.ModeSocket|0o666 {
		t.Errorf("socket is %v, %v", st, err)
	}
}

func TestDefaultDirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/somebody")
	t.Setenv("SOFTRDMA_HOST_DIR", "")
	want := "/run/somebody/softrdma/host"
	if os.Geteuid() == 0 {
		want = "/run/softrdma/host"
	}
	if got := defaultDirectory(); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	t.Setenv("SOFTRDMA_HOST_DIR", "/elsewhere")
	if got := defaultDirectory(); got != "/elsewhere" {
		t.Errorf("%q, expected /elsewhere", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("SOFTRDMA_HOST_DIR", "")
	if got, want := defaultDirectory(), fmt.Sprintf("/tmp/softrdma-host-%d", os.Geteuid()); os.Geteuid() != 0 && got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// The directory's path may be long, although the path of a socket is limited.
func TestLongDirectory(t *testing.T) {
	dir := t.TempDir()
	for range 4 {
		dir = filepath.Join(dir, "a-directory-with-a-name-of-some-fifty-characters-ok")
	}
	a := openDevice(t, Config{Dir: dir, Local: addr("[fe80::1111:2222:3333:4444%interface-with-]:65535"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("[fe80::ffff:ffff:ffff:ffff%interface-with-]:65535"), Stack: 2})
	if err := b.Reach(a.cfg.Local, 0, timeLimit); err != nil {
		t.Error(err)
	}
}

func TestStaleNames(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	local := addr("127.0.0.2:4791")
	wantReason(t, a.Reach(local, 0, timeLimit), reason.HostUnpublished)

	// A process that was killed leaves its socket.
	d, err := openDirectory(dir, a.users)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	left := name{kind: "rocev2", local: local, space: a.name.space, since: 1}
	l, err := d.listen(left, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	wantReason(t, a.Reach(local, 0, timeLimit), reason.HostStale)

	// A device with the same address takes over and removes that socket.
	b := openDevice(t, Config{Dir: dir, Local: local, Stack: 2})
	if _, err := os.Lstat(filepath.Join(dir, left.String())); !os.IsNotExist(err) {
		t.Errorf("the stale socket is there: %v", err)
	}
	if err := a.Reach(local, 0, timeLimit); err != nil {
		t.Error(err)
	}
	b.close()
	if err := a.until(func(_, detached int) bool { return detached == 1 }); err != nil {
		t.Fatal(err)
	}
	wantReason(t, a.Reach(local, 0, timeLimit), reason.HostUnpublished)
}

// A device that closes late does not remove the socket of its successor.
func TestEqualNameIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	local := addr("127.0.0.2:4791")
	old := openDevice(t, Config{Dir: dir, Local: local, Stack: 2})
	b := openDevice(t, Config{Dir: dir, Local: local, Stack: 3})
	old.close()
	if err := a.Reach(local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	only(t, b)
}

func TestPublished(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791")})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Kind: "RoCE v1"})
	for _, s := range []string{"notes", "rocev2_127.0.0.3_4791_4-1_1"} {
		if err := os.WriteFile(filepath.Join(dir, s), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, list, err := Published(dir)
	want := []Device{{"rocev1", b.cfg.Local, true}, {"rocev2", a.cfg.Local, true}, {"rocev2", addr("127.0.0.3:4791"), false}}
	if err != nil || path != dir || !slices.Equal(list, want) {
		t.Errorf("%q lists %v, %v; expected %v", path, list, err, want)
	}
	missing := filepath.Join(dir, "missing")
	_, _, err = Published(missing)
	wantReason(t, err, reason.HostDirectory)
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("made the directory: %v", err)
	}
}

// Another user may have made the directory in /tmp before, with any mode.
func TestPublicDirectoryMustBeOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can make directories of other users")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own := &users{own: 0, mapped: true}
	if err := (&directory{path: dir, file: f}).check(own); err != nil {
		t.Errorf("a shared directory is refused: %v", err)
	}
	d := &directory{path: publicDirectory(), file: f}
	wantReason(t, d.check(own), reason.HostDirectoryMode)
	if err := os.Chmod(dir, 0o700|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	wantReason(t, d.check(own), reason.HostDirectoryOwner)
	if err := os.Chown(dir, 0, -1); err != nil {
		t.Fatal(err)
	}
	if err := d.check(own); err != nil {
		t.Errorf("the own directory is refused: %v", err)
	}
}

// Names that killed processes have left are removed over time, for all addresses.
func TestNamesOfOtherAddressesArePruned(t *testing.T) {
	dir := t.TempDir()
	d, err := openDirectory(dir, &users{own: uint32(os.Geteuid())})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	in, err := ownSpace()
	if err != nil {
		t.Fatal(err)
	}
	of := func(i int) name {
		return name{kind: kindText("RoCE v2"), local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, 1, byte(i)}), 4791), space: in, since: uint64(i)}
	}
	for i := range 20 {
		l, err := d.listen(of(i+1), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			defer l.Close()
			continue
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	for range 1000 { // each call checks some
		d.replaceStale(of(99))
		if all, err := d.list(); err != nil || len(all) == 1 {
			break
		}
	}
	if all, err := d.list(); err != nil || len(all) != 1 || all[0] != of(1).String() {
		t.Errorf("found %d names, %v; expected the living device's alone", len(all), err)
	}
}
