package testenv

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"
)

// NodeExporter starts Debian's node_exporter with its collector of InfiniBand on a directory like /sys. The
// returned function asks it, and returns "" while it does not answer.
func NodeExporter(t testing.TB, sysfs string) (ask func() string) {
	t.Helper()
	const program = "prometheus-node-exporter"
	Programs(t, program)
	at := fmt.Sprintf("127.0.0.1:%d", FreePort(t, "tcp"))
	c := exec.Command(program, "--path.sysfs="+sysfs, "--collector.disable-defaults", "--collector.infiniband", "--web.listen-address="+at)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // an error because it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return func() string {
		r, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return ""
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			return ""
		}
		return string(text)
	}
}
