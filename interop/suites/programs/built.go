//go:build interop && linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A built program runs where a variable names a tree of its sources in which it was built, or where
// a package that is too large to install for it is there.
type built struct {
	name     string
	variable string
	file     string // in the tree, that the build makes
	programs []need // without a variable
	script   string // runs server and client in one folder, with the tree in the variable
	want     string
}

//go:embed testdata/ceph.sh
var cephScript string

var builtPrograms = []built{
	{
		name: "built: valkey's RDMA test", variable: "VALKEY", file: "tests/rdma/rdma-test",
		script: `"$VALKEY/src/valkey-server" --port 0 --protected-mode no --appendonly no --dir . --loadmodule "$VALKEY/src/valkey-rdma.so" bind=SERVER port=6379 >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 200); do grep -q "Ready to accept" server.log && break; sleep .05; done
stdbuf -oL "$VALKEY/tests/rdma/rdma-test" --thread 4 -h SERVER`,
		want: "Valkey Over RDMA test [OK]",
	},
	{
		name: "built: rdma-example", variable: "RDMA_EXAMPLE", file: "bin/rdma_client",
		script: `"$RDMA_EXAMPLE/bin/rdma_server" -a SERVER >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
sleep 1
"$RDMA_EXAMPLE/bin/rdma_client" -a SERVER -s textstring`,
		want: "SUCCESS, source and destination buffers match",
	},
	{
		name: "built: the-geek-in-the-corner, 01", variable: "GEEK_IN_THE_CORNER", file: "01_basic-client-server/client",
		script: `stdbuf -oL "$GEEK_IN_THE_CORNER/01_basic-client-server/server" >server.log &
server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 200); do grep -q "listening on port" server.log && break; sleep .05; done
port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' server.log)
"$GEEK_IN_THE_CORNER/01_basic-client-server/client" SERVER $port`,
		want: "send completed successfully",
	},
	{
		name: "built: rdmapp", variable: "RDMAPP", file: "build/helloworld",
		script: `"$RDMAPP/build/helloworld" 2333 >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 200); do grep -q "listening on" server.log && break; sleep .05; done
"$RDMAPP/build/helloworld" SERVER 2333`,
		want: "Compared and swapped from server: 43",
	},
	{
		name: "built: rlib", variable: "RLIB", file: "client",
		script: `"$RLIB/server" >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
"$RLIB/client"`,
		want: "msg read: hello world",
	},
	{
		name: "built: eRPC's hello_world", variable: "ERPC", file: "hello_world/client",
		script: `"$ERPC/hello_world/server" >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 10); do
	sleep 1 # the client waits 100 ms for an answer, and the server does not say when it is ready
	timeout 10 stdbuf -oL "$ERPC/hello_world/client" | tee client.log
	grep -q hello client.log && exit
done
exit 1`,
		want: "\nhello\n",
	},
	{
		name:     "built: Ceph",
		programs: []need{{"ceph-mon", "ceph-mon"}, {"ceph-mgr", "ceph-mgr"}, {"ceph-osd", "ceph-osd"}, {"ceph", "ceph-common"}, {"monmaptool", "ceph-base"}},
		script:   cephScript,
		want:     "Ceph returned what was written",
	},
}

// builtPrograms runs the built programs whose names match, and returns how many failed.
func (r *runner) builtPrograms(ctx context.Context, only *regexp.Regexp) (failed int) {
	for _, b := range builtPrograms {
		if !only.MatchString(b.name) || ctx.Err() != nil {
			continue
		}
		said, err := r.builtProgram(ctx, &b)
		fmt.Printf("%s: %s\n", b.name, said)
		if err != nil {
			fmt.Println(err)
			failed++
		}
	}
	return failed
}

func (r *runner) builtProgram(ctx context.Context, b *built) (said string, err error) {
	tree := os.Getenv(b.variable)
	for _, n := range b.programs {
		if !n.installed() {
			return fmt.Sprintf("skipped: apt-get install -y --no-install-recommends %s", n.pkg), nil
		}
	}
	if tree == "" && b.variable != "" {
		return fmt.Sprintf("skipped: %s does not name a built tree", b.variable), nil
	}
	if _, err := os.Stat(filepath.Join(tree, b.file)); err != nil && b.variable != "" {
		return "failed", fmt.Errorf("%s: expected a tree in which it was built: %w", b.variable, err)
	}
	dir, err := os.MkdirTemp("", "softrdma-built-")
	if err != nil {
		return "failed", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	began := time.Now()
	c, out := r.command(ctx, &program{}, 0, []string{"sh", "-c", b.script})
	c.Dir = dir
	err = c.Run()
	if err == nil && !strings.Contains(out.String(), b.want) {
		err = fmt.Errorf("expected %q", b.want)
	}
	if err != nil {
		return "failed", fmt.Errorf("%w, found:\n%s", err, out)
	}
	return fmt.Sprintf("passed in %v", time.Since(began).Round(time.Second)), nil
}
