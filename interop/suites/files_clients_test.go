//go:build interop && linux

package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// filesPerGuest is how many files each guest makes: 10,000 together.
const filesPerGuest = 5000

// manyLimit bounds a test with many files, each of which takes several calls.
const manyLimit = 15 * time.Minute

func TestFilesManyOfTwoGuestsByNFS(t *testing.T) { manyFiles(t, shareNFS) }
func TestFilesManyOfTwoGuestsBy9P(t *testing.T)  { manyFiles(t, share9P) }

// both runs a script in both guests at a time. $own and $other are names of the guests.
func both(ctx context.Context, l *lab.Lab, script string) error {
	var wg sync.WaitGroup
	failed := make([]error, 2)
	for i, g := range l.Guests {
		wg.Go(func() {
			failed[i] = tryInGuest(ctx, g, fmt.Sprintf("own=%s other=%s\n%s", g.Name, l.Guests[1-i].Name, script))
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// Two guests make 10,000 files in one directory at a time, read each other's, and remove them.
func manyFiles(t *testing.T, s share) {
	ctx, l := filesStart(t, manyLimit)
	n, dir := network{}, t.TempDir()
	server := filesServe(ctx, t, l, n, s, dir)
	for _, g := range l.Guests {
		if err := s.mountIn(ctx, g, n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unmount(g) })
	}
	count := strconv.Itoa(filesPerGuest)
	began := time.Now()
	if err := both(ctx, l, "mkdir -p /run/mnt/many; cd /run/mnt/many; for i in $(seq "+count+"); do echo $own $i >$own$i; done"); err != nil {
		t.Fatalf("%v\nthe server said:\n%s", err, lab.Tail(server.Said(), 1000))
	}
	made := time.Since(began)
	for _, g := range l.Guests {
		for i := 1; i <= filesPerGuest; i++ {
			name := fmt.Sprint(g.Name, i)
			if content, err := os.ReadFile(filepath.Join(dir, "many", name)); err != nil || string(content) != fmt.Sprintf("%s %d\n", g.Name, i) {
				t.Fatalf("%s has %q, %v", name, content, err)
			}
		}
	}
	if err := both(ctx, l, `
cd /run/mnt/many
[ $(ls | wc -l) = `+fmt.Sprint(2*filesPerGuest)+` ]
for i in $(seq `+count+`); do read name number <$other$i; [ "$name $number" = "$other $i" ]; done
`); err != nil {
		t.Fatalf("%v\nthe server said:\n%s", err, lab.Tail(server.Said(), 1000))
	}
	read := time.Since(began) - made
	if err := both(ctx, l, "cd /run/mnt/many; for i in $(seq "+count+"); do echo $own$i; done | xargs rm; cd /; umount /run/mnt"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "many")); err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	t.Logf("made in %v, read in %v, all in %v", made.Round(time.Second), read.Round(time.Second), time.Since(began).Round(time.Second))
}

func TestFilesGuestPoweredOffByNFS(t *testing.T) { poweredOff(t, shareNFS, "") }

// Linux asks again after 30 s for a lock that another client has.
func TestFilesGuestPoweredOffBy9P(t *testing.T) {
	poweredOff(t, share9P, "flock -w 150 /run/mnt/locked true\n")
}

// A guest loses its power in the middle of a write. The other's mount stays usable, and finds of the file what was
// written, and afterwards the locks of the other free. The guest boots again, and finishes the file.
func poweredOff(t *testing.T, s share, unlocked string) {
	ctx, l := filesStart(t, 2*filesLimit)
	n, dir := network{}, t.TempDir()
	server := filesServe(ctx, t, l, n, s, dir)
	for _, g := range l.Guests {
		if err := s.mountIn(ctx, g, n); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unmount(l.Guests[0]) })
	const lines = 2_000_000 // of some 15 MB
	write := "seq " + strconv.Itoa(lines) + " | dd of=/run/mnt/large bs=64k iflag=fullblock 2>/dev/null"
	if unlocked != "" {
		inGuest(ctx, t, l.Guests[1], "flock /run/mnt/locked sleep 10000 >/dev/null 2>&1 & while flock -n /run/mnt/locked true; do sleep .1; done")
		inGuest(ctx, t, l.Guests[0], "if flock -n /run/mnt/locked true; then exit 1; fi")
	}
	inGuest(ctx, t, l.Guests[1], "("+write+") >/dev/null 2>&1 &")
	awaitFile(ctx, t, filepath.Join(dir, "large"))
	l.PowerOff(1)
	off := time.Now()
	booted := make(chan error, 1)
	go func() { booted <- l.Boot(ctx, 1) }()
	defer func() { // the next test uses the guest, too
		if err := <-booted; err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
		g := l.Guests[1]
		t.Cleanup(func() { unmount(g) })
		if err := s.mountIn(ctx, g, n); err != nil {
			t.Fatal(err)
		}
		inGuest(ctx, t, g, write+"\nseq "+strconv.Itoa(lines)+" | cmp - /run/mnt/large\numount /run/mnt")
		t.Logf("the server said:\n%s", lab.Tail(server.Said(), 1000))
	}()
	inGuest(ctx, t, l.Guests[0], "work=/run/mnt/work\nmkdir $work\n"+filesWork+unlocked)
	if err := server.AwaitOutput(ctx, "has left"); err != nil {
		t.Fatal(err)
	}
	t.Logf("the server noticed within %v", time.Since(off).Round(time.Second))
	written, err := os.ReadFile(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, written, lines)
	inGuest(ctx, t, l.Guests[0], fmt.Sprintf("sha256sum /run/mnt/large | grep %x\ncd /\numount /run/mnt", sha256.Sum256(written)))
}

// checkLines checks that what was written are the first of a number of lines. Pages that did not come are zeros.
func checkLines(t *testing.T, written []byte, lines int) {
	t.Helper()
	var want []byte
	for i := 1; i <= lines && len(want) < len(written); i++ {
		want = append(strconv.AppendInt(want, int64(i), 10), '\n')
	}
	const page = 4096
	zeros := make([]byte, page)
	if len(want) < len(written) {
		t.Fatalf("found %d bytes, expected at most %d", len(written), len(want))
	}
	for at := 0; at < len(written); at += page {
		end := min(at+page, len(written))
		if p := written[at:end]; !bytes.Equal(p, want[at:end]) && !bytes.Equal(p, zeros[:len(p)]) {
			t.Fatalf("other bytes at %d: %.40q", at, p)
		}
	}
	t.Logf("of the file %d bytes were written", len(written))
}
