package docs

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors are the packages from the bottom up, a line for each floor. "x/..." is x with all below it,
// which may know each other, and "x/*" all below x, which do not, unless another pattern is longer. A
// package imports packages of lower floors only, so packages that share a floor do not know each
// other.
var floors = []string{
	// Arithmetic, names, and what the system has.
	"internal/crc internal/aesgcm internal/psn internal/reason internal/congestion internal/flight internal/eventqueue internal/vector internal/memfd internal/rundir " +
		"internal/inherit internal/waiting internal/pathmtu internal/namedfiles internal/strictyaml internal/waitgraph internal/pmix storage/internal/shares internal/host/... internal/testenv/... preload preload/library",
	// Formats, states, and machines that know nothing but them.
	"internal/wire/... internal/qp internal/launch internal/session internal/tagmatch internal/link internal/link/lines " +
		"storage/nvmeof/wire/... storage/internal/streams " +
		"internal/wake internal/topology internal/fabric/trunk/udp internal/uverbs/folder " +
		"rdmanet/internal/rsocket msg/internal/wakeup",
	"storage/nvmeof/auth internal/fabric/dcb",
	"storage/nvmeof/controller internal/message internal/memory internal/trace internal/unixmsg internal/steering internal/frame internal/link/trust internal/attack internal/management/routing " +
		"internal/fabric/bridge internal/fabric/station",
	"internal/object internal/queue internal/management/hardware internal/management/rmpp internal/wire/uapi internal/fabric/lan " +
		"internal/frame/infiniband internal/frame/rocev1 internal/frame/rocev2 internal/link/hostmem internal/link/tcp msg/internal/ring",
	"faults internal/recorder internal/rdmanl internal/sanitize internal/cmid internal/machine/... internal/fabric/port internal/management/agent internal/management/sm internal/link/udp " +
		"internal/link/packet internal/link/sealed internal/fabric/hostport internal/link/fabric internal/samehost internal/capture internal/simnet internal/daemon",
	// Transports and the connection manager: machines without I/O.
	"internal/capture/ladder internal/link/netstack internal/recordfile internal/unreliable internal/cm internal/ondemand internal/provider internal/explain internal/fabric/node internal/management/partitions " +
		"internal/fabric/trunk",
	"faults/file internal/control internal/cdi internal/rc/... internal/iwarp/... internal/uc internal/ud internal/allocation internal/fabric/subnet internal/fabric/relay",
	// The adapter drives them.
	"internal/adapter/... internal/fabric/attach internal/fabric/control internal/simulate/...",
	"faults/scenarios internal/sampler internal/cma internal/away internal/simnet/rig internal/uverbs/client internal/fabric/drawing internal/fabric/live internal/fabric/tap",
	"internal/provider/local internal/fabric/fabrictest internal/simnet/comparison internal/console",
	"internal/provider/fabric",
	"internal/sa",
	"internal/registry",
	// The public API, and protocols above it.
	"verbs",
	"rdmacm internal/tlsfiles internal/simnet/bubble internal/uverbs/device internal/exporter internal/lessons",
	"internal/carrier metrics storage/internal/buffers storage/block",
	// Storage: what the protocols share, transports, services.
	"storage/internal/channel storage/rpcrdma/wire storage/nbd",
	"storage/rpcrdma storage/ninep",
	"storage/nfs",
	"internal/uverbs/commands internal/uverbs/ucm internal/uverbs/umad msg/internal/... rdmanet",
	"msg rpc internal/uverbs internal/uverbs/program internal/attack/honest",
	"coll rpc/stream ucx internal/simnet/longpath internal/daemontest preload/engine preload/oldglibc storage/nvmeof/target storage/nvmeof/host",
	// Programs.
	"cmd/softrdma/internal/cli cmd/softrdma/internal/clitest",
	"cmd/softrdma/internal/measure rpc/protobuf/...",
	"cmd/softrdma/internal/* examples/*",
	"cmd/softrdma bench/loop bench/relay interop/lab/... packaging/...",
	"bench/compare interop/peers/...",
	"bench interop/...",
}

// A wall keeps packages from what stands on a lower floor and is not theirs. Patterns are those of
// floors; those of "not" may also name packages of others.
type wall struct{ of, not, why string }

const (
	machines  = "internal/rc internal/uc internal/ud internal/iwarp internal/machine internal/unreliable"
	insideOf  = machines + " internal/adapter/... internal/queue internal/link/..."
	outside   = "net net/http os/... log/... github.com/... golang.org/x/sys/unix golang.org/x/net/ipv4 golang.org/x/net/ipv6"
	managers  = "internal/management/sm internal/fabric/subnet internal/fabric/node internal/management/agent internal/fabric/port internal/fabric/live"
	abovePort = "internal/adapter/... verbs"
)

var walls = []wall{
	{"internal/crc internal/aesgcm internal/psn internal/reason internal/wire/ib/... internal/wire/iwarp internal/wire/mad/... internal/wire/ethernet internal/qp internal/memory internal/queue internal/congestion internal/flight internal/pathmtu internal/eventqueue " +
		"internal/session internal/tagmatch internal/message internal/link internal/steering internal/frame/... internal/object internal/cmid rdmanet/internal/rsocket " +
		"internal/machine/... internal/rc/... internal/iwarp/... internal/uc internal/ud internal/unreliable internal/cm internal/provider " +
		"internal/management/agent internal/management/hardware internal/fabric/node internal/fabric/port internal/management/rmpp internal/management/routing internal/management/sm " +
		"internal/fabric/subnet internal/topology internal/management/partitions internal/fabric/trunk internal/fabric/control internal/fabric/drawing " +
		"internal/fabric/dcb internal/fabric/bridge internal/fabric/station internal/fabric/lan internal/simulate/... " +
		"internal/adapter/schedule internal/adapter/batch internal/adapter/share bench/relay",
		outside, "packet in, packet out, next deadline: no I/O"},
	{"internal/adapter internal/adapter/stream", "net os internal/host internal/link/udp internal/link/tcp internal/capture internal/explain", "the adapter is what hardware would be"},
	{"internal/cm internal/cma", "internal/rc internal/uc internal/ud internal/queue", "a connection is no transport's business"},
	{"internal/trace internal/link/... internal/capture internal/host internal/simnet", machines + " internal/adapter/...", "only the adapter drives machines"},
	{"internal/link/fabric internal/fabric/attach internal/fabric/relay", managers + " " + abovePort, "programs know a fabric's socket and link, and none of its machines"},
	{"internal/fabric/node", "internal/management/agent", "a node knows no agent"},
	{"internal/management/agent", "internal/fabric/port internal/fabric/node", "an agent knows the node by an interface"},
	{"storage/rpcrdma/wire", outside, "formats: no I/O"},
	{"storage/internal/... storage/rpcrdma storage/ninep storage/nfs", "internal/...", "an example of a protocol has what its readers have"},
	{"verbs", "internal/rc internal/uc internal/ud internal/iwarp internal/cm", "verbs holds no protocol rules"},
	{"rdmacm", insideOf + " internal/cm internal/memory internal/capture", "rdmacm holds no protocol rules: work goes through verbs"},
	{"rdmanet internal/carrier msg rpc coll ucx examples/...", "internal/adapter/... internal/cma internal/provider/... internal/registry internal/memory " + insideOf, "programs use the public API"},
	{"examples/... storage/...", "internal/...", "an example has what its readers have"},
	{"storage/nvmeof/wire/... storage/nvmeof/auth storage/nvmeof/controller", outside, "command in, data and completion out: no I/O"},
	{"cmd/...", insideOf, "programs use verbs"},
	{"internal/uverbs/client internal/uverbs/device internal/uverbs/commands internal/uverbs/umad", "internal/cma internal/cm", "connections are ucm's"},
	{"internal/uverbs/client internal/uverbs/commands internal/uverbs/ucm internal/uverbs/umad", "verbs", "devices are package device's"},
	{"internal/daemon internal/wire/uapi", "internal/adapter/... internal/host internal/link/... " + machines, "a client of a daemon does not link the engine"},
	{"interop/lab/... interop/peers internal/testenv/...", "internal/adapter/... verbs rdmacm", "softrdma is a program in the lab"},
	{"bench/compare bench/loop", "verbs internal/adapter/... interop/...", "what softrdma does is measured from outside"},
	{"internal/... verbs rdmacm rdmanet msg rpc coll", "github.com/spf13/...", "only commands have flags"},
}

// matches reports how long the first of the patterns is that matches a package, 0 if none does.
func matches(patterns, pkg string) (length int) {
	for _, p := range strings.Fields(patterns) {
		tree, whole := strings.CutSuffix(p, "...")
		if below, each := strings.CutSuffix(p, "*"); p == pkg || whole && strings.HasPrefix(pkg+"/", tree) || each && strings.HasPrefix(pkg, below) {
			length = max(length, len(p))
		}
	}
	return length
}

// floorOf returns a package's floor and pattern, -1 if it has none.
func floorOf(pkg string) (floor int, pattern string) {
	floor = -1
	for i, patterns := range floors {
		for _, p := range strings.Fields(patterns) {
			if matches(p, pkg) > len(pattern) {
				floor, pattern = i, p
			}
		}
	}
	return floor, pattern
}

// importsOf returns the imports of each package, without those of tests. Packages of this
// repository are named by their folders.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, path := range sourceFiles(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.ToSlash(dir)
		all[pkg] = append(all[pkg], "")
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[pkg] = append(all[pkg], strings.TrimPrefix(name, "softrdma/"))
		}
	}
	return all
}

// violations says what is wrong with an import.
func violations(pkg, imported string) (list []string) {
	floor, pattern := floorOf(pkg)
	if below, own := floorOf(imported); below >= 0 && below >= floor && (own != pattern || strings.HasSuffix(own, "*")) && pkg != imported {
		list = append(list, pkg+" imports "+imported+", which does not stand on a lower floor")
	}
	for _, w := range walls {
		if n := matches(w.not, imported); n > 0 && matches(w.of, pkg) > 0 && pkg != imported {
			list = append(list, pkg+" imports "+imported+": "+w.why)
		}
	}
	return list
}

// TestImportsPointDownwards holds the layers of architecture.md.
func TestImportsPointDownwards(t *testing.T) {
	all := importsOf(t)
	if len(all) < 100 {
		t.Fatalf("found %d packages", len(all))
	}
	for pkg, list := range all {
		if floor, _ := floorOf(pkg); floor < 0 {
			t.Errorf("package %s has no floor", pkg)
		}
		slices.Sort(list)
		for _, imported := range slices.Compact(list) {
			for _, v := range violations(pkg, imported) {
				t.Error(v)
			}
		}
	}
}

// The rules must refuse what they are for.
func TestForbiddenImportsAreFound(t *testing.T) {
	for _, x := range []struct{ pkg, imported string }{
		{"internal/wire/ib", "internal/rc"}, {"internal/rc", "internal/uc"}, {"internal/uc", "internal/rc"}, {"internal/rc", "net"}, {"internal/machine", "os"},
		{"internal/machine", "internal/rc"}, {"internal/cm", "internal/iwarp"}, {"internal/adapter", "verbs"}, {"internal/adapter", "os"},
		{"internal/adapter", "internal/link/udp"}, {"internal/link/udp", "internal/adapter"}, {"internal/capture", "internal/rc"}, {"internal/management/sm", "internal/fabric/node"},
		{"internal/fabric/attach", "internal/management/sm"}, {"verbs", "internal/rc"}, {"verbs", "rdmacm"}, {"rdmanet", "internal/adapter"}, {"msg", "internal/cma"},
		{"rpc", "msg"}, {"coll", "internal/memory"}, {"examples/hello", "internal/reason"}, {"cmd/softrdma/internal/cat", "cmd/softrdma/internal/rping"},
		{"cmd/softrdma/internal/cli", "cmd/softrdma/internal/measure"}, {"cmd/softrdma/internal/perf", "internal/link/udp"}, {"verbs", "github.com/spf13/cobra"},
		{"internal/uverbs/commands", "internal/uverbs/ucm"}, {"internal/uverbs/commands", "verbs"}, {"internal/daemon", "internal/adapter"},
		{"bench/compare", "verbs"}, {"interop/lab", "verbs"}, {"internal/reason", "internal/psn"},
	} {
		if len(violations(x.pkg, x.imported)) == 0 {
			t.Errorf("%s may import %s", x.pkg, x.imported)
		}
	}
	for _, x := range []struct{ pkg, imported string }{{"internal/rc", "internal/machine"}, {"internal/rc", "net/netip"}, {"verbs", "internal/adapter"}, {"examples/hello", "verbs"}} {
		if list := violations(x.pkg, x.imported); len(list) > 0 {
			t.Error(list)
		}
	}
}
