package rdmacm_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/internal/uverbs"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Queue pair 1 of a shared address belongs to the process that shares it.
func TestSharedAddressRefusesConnections(t *testing.T) {
	dir := testenv.SocketDir(t)
	owner, err := verbs.NewStack().Open("127.8.42.1", verbs.Config{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	server, err := uverbs.Serve(uverbs.Config{Devices: []*verbs.Device{owner}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dev, err := verbs.Open("shared:"+filepath.Join(dir, "socket"), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check := func(what string, err error) {
		t.Helper()
		var why verbs.ReasonError
		if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &why) || why.Reason() != "SLOT_CONNECTIONS" {
			t.Errorf("%s: %v, expected SLOT_CONNECTIONS", what, err)
		}
	}
	l, err := rdmacm.Listen("127.8.42.1:7471", rdmacm.ListenConfig{})
	if err == nil {
		_ = l.Close()
	}
	check("listen", err)
	d := rdmacm.Dialer{Device: dev}
	_, err = d.Dial(ctx, "127.8.42.2:7471")
	check("dial", err)
}
