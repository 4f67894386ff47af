package demo

import (
	"encoding/json"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// The iWARP devices of both processes have one address. A WRITE's data must have
// arrived when the client says so, although small files complete earlier.
func TestDemoIWARP(t *testing.T) {
	for _, args := range []string{"--protocol iwarp", "--addr iwarp:127.0.0.1", "--protocol iwarp --addr 127.0.0.1,127.0.0.2"} {
		var r report
		if err := json.Unmarshal([]byte(clitest.Run(t, append([]string{"demo", "--json", "--size", "1M"}, strings.Fields(args)...)...)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Protocol != "iWARP" || !strings.HasPrefix(r.Client, "iwarp:127.") || !strings.HasPrefix(r.Server, "iwarp:127.") || len(r.Operations) != len(operations) {
			t.Errorf("%s: unexpected report %+v", args, r)
		}
	}
}
