package ninep_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hugelgupf/p9/p9"

	"softrdma/storage/internal/channel"
)

// Longer runs: go test ./storage/ninep -run Random -operations 100000
var (
	operations = flag.Int("operations", 100, "random operations of each client")
	seed       = flag.Uint64("seed", 1, "seed of random operations")
)

// operate executes a random operation on a file, and on a model of it.
func operate(r *rand.Rand, f p9.File, model []byte) ([]byte, error) {
	const limit = 60000
	off, n := r.IntN(limit), r.IntN(20000)
	resize := func(size int) {
		if old := len(model); size > old {
			model = slices.Grow(model, size-old)[:size]
			clear(model[old:])
		}
	}
	switch r.IntN(5) {
	case 0, 1:
		data := make([]byte, n+1)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if got, err := f.WriteAt(data, int64(off)); got != len(data) || err != nil {
			return model, fmt.Errorf("wrote %d of %d bytes at %d: %w", got, len(data), off, err)
		}
		resize(max(len(model), off+len(data)))
		copy(model[off:], data)
	case 2, 3:
		data := make([]byte, n)
		got, err := f.ReadAt(data, int64(off))
		if want := model[min(off, len(model)):min(off+n, len(model))]; !bytes.Equal(data[:got], want) {
			return model, fmt.Errorf("read %d bytes at %d: expected %d or others, %v", got, off, len(want), err)
		}
	case 4:
		size := r.IntN(limit)
		if err := f.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{Size: uint64(size)}); err != nil {
			return model, err
		}
		resize(size)
		model = model[:size]
		if _, _, a, err := f.GetAttr(p9.AttrMaskAll); err != nil || a.Size != uint64(size) {
			return model, fmt.Errorf("expected %d bytes, found %d, %w", size, a.Size, err)
		}
	}
	return model, nil
}

// TestRandomOperations: several clients at once change files of their own at random, which always have what
// a model of them has, and the real files in the end.
func TestRandomOperations(t *testing.T) {
	const clients = 3
	dir := t.TempDir()
	var models [clients][]byte
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		var all sync.WaitGroup
		for i := range clients {
			root, end := attachRoot(t, dial())
			all.Go(func() {
				defer end()
				f, _, _, err := root.Create(fmt.Sprintf("file%d", i), p9.ReadWrite, 0o644, 0, 0)
				if err != nil {
					t.Error(err)
					return
				}
				r := rand.New(rand.NewPCG(*seed, uint64(i)))
				for range *operations {
					if models[i], err = operate(r, f, models[i]); err != nil {
						t.Errorf("seed %d: client %d: %v", *seed, i, err)
						return
					}
				}
			})
		}
		all.Wait()
	})
	for i, m := range models {
		if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("file%d", i))); err != nil || !bytes.Equal(got, m) {
			t.Errorf("seed %d: client %d: the file has %d bytes, its model %d, or others: %v", *seed, i, len(got), len(m), err)
		}
	}
}

// A client that ends in the middle of a write leaves nothing at the server, and others continue.
func TestClientEndsWhileItWrites(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		other, end := attachRoot(t, dial())
		defer end()
		kept, _, _, err := other.Create("kept", p9.ReadWrite, 0o644, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(*seed, 99))
		var model []byte
		for i := range 10 {
			conn := dial()
			root, endRoot := attachRoot(t, conn)
			f, _, _, err := root.Create(fmt.Sprintf("lost%d", i), p9.ReadWrite, 0o644, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			var writing sync.WaitGroup
			writing.Go(func() {
				for {
					if _, err := f.WriteAt(make([]byte, 8000), 0); err != nil {
						return
					}
				}
			})
			for range 5 {
				if model, err = operate(r, kept, model); err != nil {
					t.Fatal(err)
				}
			}
			conn.Fail(errors.New("the client is killed"))
			writing.Wait()
			endRoot()
		}
	})
}

func TestLargeSparseFile(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		f, _, _, err := root.Create("file", p9.ReadWrite, 0o644, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		const at = 4<<30 - 3
		if n, err := f.WriteAt([]byte("across"), at); n != 6 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		got := make([]byte, 100)
		if n, err := f.ReadAt(got, at-2); string(got[:n]) != "\x00\x00across" {
			t.Errorf("found %q, %v", got[:n], err)
		}
		if _, _, a, err := f.GetAttr(p9.AttrMaskAll); err != nil || a.Size != at+6 {
			t.Errorf("found %d bytes, %v", a.Size, err)
		}
	})
}

// Every name of a directory that takes many messages is listed once.
func TestManyFiles(t *testing.T) {
	const files = 2000
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, dir, true, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		list := walk(t, root)
		if _, _, err := list.Open(p9.ReadOnly); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for at := uint64(0); ; {
			entries, err := list.Readdir(at, 8000)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				if seen[e.Name] {
					t.Errorf("%s was listed twice", e.Name)
				}
				seen[e.Name] = true
				at = e.Offset
			}
		}
		if len(seen) != files {
			t.Errorf("expected %d names, found %d", files, len(seen))
		}
	})
}
