package coll

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"softrdma/internal/launch"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// The device of World encrypts if the environment names a secret, and is not opened if there is none in the file.
func TestWorldEncryptsAsTheEnvironmentSays(t *testing.T) {
	other, err := verbs.SharedSecret([]byte("a secret of somebody else"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte("a secret of all ranks"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := &launch.Job{ID: t.Name(), Size: 1, LocalSize: 1}
	for _, encrypts := range []bool{false, true} {
		if encrypts {
			t.Setenv("SOFTRDMA_PSK_FILE", file)
		}
		dev, err := open(job)
		if err != nil {
			t.Fatal(err)
		}
		var se *rdmacm.SecurityError
		if _, err := rdmacm.Listen(":0", rdmacm.ListenConfig{Device: dev, TLS: other}); !errors.As(err, &se) || se.TLS != encrypts {
			t.Errorf("expected a device that encrypts: %v, found %v", encrypts, err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("SOFTRDMA_PSK_FILE", os.DevNull)
	if dev, err := open(job); err == nil {
		_ = dev.Close()
		t.Error("a device was opened without a secret")
	}
}
