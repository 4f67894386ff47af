package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The test binary can also run the example.
func TestMain(m *testing.M) {
	if os.Getenv("FILECOPY_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func example(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "FILECOPY_EXAMPLE=1")
	return c
}

func TestCopyOfEverySizeIsTheSame(t *testing.T) {
	for _, n := range []int{0, 1, part - 1, part, part + 1, 20*part + 12345} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		want := make([]byte, n)
		rand.Read(want)
		if err := os.WriteFile(from, want, 0o600); err != nil {
			t.Fatal(err)
		}
		sender := example("-from", from, "-device", "127.8.0.12")
		sender.Stderr = os.Stderr
		if err := sender.Start(); err != nil {
			t.Fatal(err)
		}
		defer sender.Process.Kill()
		// The connection is refused until the sender listens.
		var out []byte
		var err error
		for range 100 {
			if out, err = example("-get", "127.8.0.12", "-to", to, "-device", "127.8.0.13").CombinedOutput(); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := sender.Wait(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("copy of %d bytes has %d, or others: %v", n, len(got), err)
		}
	}
}

func TestWithoutArgumentsCopiesItself(t *testing.T) {
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := example("-to", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("copy of %d bytes has %d, or others: %v", len(want), len(got), err)
	}
}
