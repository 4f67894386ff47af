package rcopy

import (
	"os"
	"path/filepath"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestRcopyIWARP(t *testing.T) {
	at, dir := clitest.LoopbackDevice(t), t.TempDir()
	data := clitest.RandomData(1, 10_000)
	server := clitest.Start(t, "rcopy", "--once", "--dir", dir, "-a", "iwarp:"+at)
	server.Prints("waiting")
	clitest.Run(t, "rcopy", "--protocol", "iwarp", writeSource(t, data), at+":copy")
	server.Succeeds()
	found, err := os.ReadFile(filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	clitest.SameData(t, "the copy", data, found)
}
