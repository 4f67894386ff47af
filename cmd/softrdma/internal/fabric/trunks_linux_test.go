package fabric

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/topology"
)

// pingpong moves data between an adapter of each of two fabrics.
func pingpong(t *testing.T) {
	t.Helper()
	port := clitest.FreePort(t)
	server := clitest.Start(t, "pingpong", "-p", port, "-n", "200", "-c", "-d", "ib:a/node-0")
	server.Prints("local address:")
	clitest.Run(t, "pingpong", "-p", port, "-n", "200", "-c", "-d", "ib:b/p1-node-1", "127.0.0.1")
	server.Succeeds()
}

func TestFabricsOfTwoProcessesAreOneSubnet(t *testing.T) {
	at := fabrictest.FreeUDP(t, 2)
	secret := clitest.SecretFile(t, "a secret of both hosts")
	a := up(t, "--name", "a", "--topology", "star:2,spare=1", "--listen", at[0], "--trunk", "switch-0:3="+at[1], "--trunk-secret", secret)
	other := []string{"--name", "b", "--topology", "star:2,spare=1,part=1", "--no-sm", "--listen", at[1], "--trunk", "p1-switch-0:3=" + at[0],
		"--trunk-secret", secret}
	b := another(t, other...)
	a.Prints("trunk at switch-0 port 3 leads to p1-switch-0:3 of fabric b")
	b.Prints("trunk at p1-switch-0 port 3 leads to switch-0:3 of fabric a")
	until(t, "(3 active)", "fabric", "status", "--name", "b")
	expect(t, clitest.Run(t, "fabric", "links", "--name", "a", "-i", "0"), "b/p1-switch-0:3 at "+at[1])
	pingpong(t)
	expect(t, clitest.Run(t, "fabric", "trace", "--name", "a", "node-0", lidOf(t, "b", "p1-node-1")), "leaves by the trunk to b/p1-switch-0:3")
	expect(t, clitest.Run(t, "fabric", "draw", "--name", "a"), "○b/p1-switch-0:3")

	expect(t, clitest.Run(t, "fabric", "link", "down", "--name", "a", "switch-0:3"), "switch-0:3 - b/p1-switch-0:3 at "+at[1]+": cut")
	until(t, "1 down", "fabric", "status", "--name", "b")
	clitest.Run(t, "fabric", "link", "up", "--name", "a", "switch-0:3")
	until(t, "(3 active)", "fabric", "status", "--name", "b")
	pingpong(t)

	if err := b.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.Prints("FABRIC_TRUNK_SILENT")
	until(t, "1 down", "fabric", "status", "--name", "a")
	another(t, other...)
	until(t, "(3 active)", "fabric", "status", "--name", "a")
	until(t, "(3 active)", "fabric", "status", "--name", "b")
	pingpong(t)
}

func TestTrunkToAnotherKindOfNetworkIsNamed(t *testing.T) {
	at := fabrictest.FreeUDP(t, 2)
	a := up(t, "--name", "a", "--topology", "star:2,spare=1", "--listen", at[0], "--trunk", "switch-0:3="+at[1])
	b := another(t, "--name", "b", "--ethernet", "--topology", "star:2,spare=1", "--listen", at[1], "--trunk", "switch-0:3="+at[0])
	a.Prints("expected an InfiniBand fabric, found an Ethernet fabric (FABRIC_TRUNK_NETWORK)")
	b.Prints("expected an Ethernet fabric, found an InfiniBand fabric (FABRIC_TRUNK_NETWORK)")
}

// lidOf returns the LID of a node.
func lidOf(t *testing.T, fabric, node string) string {
	t.Helper()
	var s control.Status
	if err := json.Unmarshal([]byte(clitest.Run(t, "fabric", "status", "--name", fabric, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			return fmt.Sprint(s.Nodes[i].LIDs[0])
		}
	}
	t.Fatalf("no LID of %s", node)
	return ""
}

func TestTrunksAreRefusedWithExpectedAndFound(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--trunk", "switch-0"}, "expected NODE:PORT=HOST:UDPPORT"},
		{[]string{"--trunk", "leaf-9:1=127.0.0.1:7"}, `no node "leaf-9"`},
		{[]string{"--trunk", "switch-0:x=127.0.0.1:7"}, "expected the number of a port"},
		{[]string{"--trunk", "switch-0:5=127.0.0.1"}, "expected HOST:UDPPORT"},
		{[]string{"--trunk", "switch-0:5=127.0.0.1:0"}, "expected a UDP port"},
		{[]string{"--trunk", "switch-0:5=127.0.0.1:7", "--listen", "x"}, "--listen: expected"},
	} {
		clitest.Start(t, append([]string{"fabric", "up"}, x.args...)...).Fails(cli.ExitUsage, x.want)
	}
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	clitest.Start(t, "fabric", "up", "--trunk", "switch-0:1=127.0.0.1:7").Fails(cli.ExitFailed, "expected a port without a cable")
	at := fabrictest.FreeUDP(t, 2)
	_, port, _ := net.SplitHostPort(at[0])
	taken := []string{"--topology", "star:2,spare=1", "--listen", ":" + port, "--trunk", "switch-0:3=" + at[1]}
	up(t, append([]string{"--name", "a"}, taken...)...)
	clitest.Start(t, append([]string{"fabric", "up", "--name", "b"}, taken...)...).Fails(cli.ExitFailed, "from port "+port, "address already in use", "--listen")
}

func TestTrunkFlagNamesAPortAndAnAddress(t *testing.T) {
	f, err := topology.Generate("star:2,spare=1")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"switch-0:3=[::1]:7700": "[::1]:7700", "0x025dfa0001000000:3=10.0.0.1:1": "10.0.0.1:1", "switch-0:3=localhost:9": "127.0.0.1:9"} {
		c, err := parseTrunk(t.Context(), f, text)
		if err != nil || c.At != (topology.End{Node: 0, Port: 3}) || c.Peer.String() != want {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}
