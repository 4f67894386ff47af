package compare

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A copy continues after the link was gone for a minute, and the file is whole. It takes minutes, so it runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestCopyAfterTheLinkWasGone ./compare
func TestCopyAfterTheLinkWasGone(t *testing.T) {
	const away = 65 * time.Second
	program := wanProgram(t)
	path, err := Veth(1500)
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	for name, flags := range map[string]string{"RoCE in PSP": "--psk-file psk", "iWARP with TLS": "--protocol iwarp --psk-file psk"} {
		t.Run(name, func(t *testing.T) {
			x := copies{t: t, r: &Relay{Path: path}, dir: t.TempDir(), program: program}
			x.prepareFile(400 << 20)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			s := x.command(ctx, server, program+" rcopy "+flags+" --dir in -a {S}")
			x.must(s.Start())
			defer func() {
				_ = s.Process.Kill()
				_ = s.Wait()
			}()
			time.Sleep(2 * time.Second) // until it listens
			var out bytes.Buffer
			p := x.command(ctx, client, program+" rcopy "+flags+" file {S}:copy")
			p.Stdout, p.Stderr = &out, &out
			x.must(p.Start())
			x.awaitPart(64 << 20)
			x.link("down")
			t.Log("the link is down")
			time.Sleep(away)
			x.link("up")
			up := time.Now()
			if err := p.Wait(); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			got, err := os.ReadFile(x.path("in/copy"))
			if err != nil || !bytes.Equal(got, x.data) {
				t.Fatalf("other bytes arrived, %d of %d, %v: %s", len(got), len(x.data), err, &out)
			}
			if !bytes.Contains(out.Bytes(), []byte("continued after")) {
				t.Errorf("it has not continued: %s", &out)
			}
			t.Logf("copied %.1f s after the link was up again: %s", time.Since(up).Seconds(), &out)
		})
	}
}

// awaitPart waits until the server has so many bytes of the file.
func (x *copies) awaitPart(n int64) {
	x.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, _ := filepath.Glob(x.path("in/.rcopy-*.part"))
		for _, name := range list {
			if info, err := os.Stat(name); err == nil && info.Size() >= n {
				return
			}
		}
	}
	x.t.Fatalf("the server has not got %d bytes", n)
}

// link sets the client's end of the path up or down.
func (x *copies) link(state string) {
	x.t.Helper()
	words := append(append([]string{}, x.r.Path.Inside[client]...), "ip", "link", "set", x.r.Path.Device[client], state)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		x.t.Fatalf("%v: %v: %s", words, err, out)
	}
}
