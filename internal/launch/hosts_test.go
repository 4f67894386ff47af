package launch

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(text string) (list []netip.Prefix) {
	for s := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

func TestNearestAddressOfOtherHosts(t *testing.T) {
	for name, x := range map[string]struct{ own, others, want string }{
		"same network":                {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.2"},
		"a network of this host":      {"192.168.7.1/24 10.0.0.1/24", "172.30.0.9/24 10.0.0.2/24", "10.0.0.2"},
		"a network of another rank's": {"10.0.0.1/24", "172.30.0.9/24, 10.0.0.3/24", "10.0.0.3"},
		"through a router":            {"10.0.0.1/24", "10.0.9.2/24 10.0.8.2/24", "10.0.9.2"},
		"bridges of containers":       {"172.17.0.1/16 10.0.0.1/24", "172.17.0.1/16 10.0.0.2/24", "10.0.0.2"},
		"this host alone":             {"10.0.0.1/24", "10.0.0.1/24", ""},
		"no addresses":                {"10.0.0.1/24", "", ""},
	} {
		hosts := [][]netip.Prefix{prefixes(x.own)}
		for other := range strings.SplitSeq(x.others, ",") {
			hosts = append(hosts, prefixes(other))
		}
		got, ok := nearest(prefixes(x.own), hosts)
		if want, _ := netip.ParseAddr(x.want); got != want || ok != (x.want != "") {
			t.Errorf("%s: %v, %v, expected %s", name, got, ok, x.want)
		}
	}
}

// values is a board with the values of the other ranks.
type values struct {
	list          [][]byte
	err           error
	asked, closed bool
}

func (v *values) share(_ context.Context, _ string, value []byte) ([][]byte, error) {
	v.asked = true
	return append([][]byte{value}, v.list...), v.err
}

func (v *values) leave() error { return v.err }

func (v *values) close() { v.closed = true }

// A rank whose device is known still answers the others.
func TestLocate(t *testing.T) {
	other, err := json.Marshal(prefixes("192.0.2.7/24"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, x := range map[string]struct {
		job    Job
		board  values
		asked  bool
		remote string
		err    error
	}{
		"two hosts":         {Job{LocalSize: 1, Size: 2}, values{list: [][]byte{other}}, true, "192.0.2.7:9", nil},
		"one host":          {Job{LocalSize: 2, Size: 2}, values{err: broken}, false, "", nil},
		"a device is named": {Job{LocalSize: 1, Size: 2, Device: "10.0.0.1"}, values{list: [][]byte{other}}, true, "", nil},
		"launcher fails":    {Job{LocalSize: 1, Size: 2}, values{err: broken}, true, "", broken},
		"not addresses":     {Job{LocalSize: 1, Size: 2}, values{list: [][]byte{[]byte("10.0.0.1")}}, true, "", ErrExchange},
	} {
		x.job.board = &x.board
		err := x.job.Locate(t.Context())
		if !errors.Is(err, x.err) || x.job.Remote != x.remote || x.board.asked != x.asked {
			t.Errorf("%s: %q, %v, asked %v, expected %q, %v, %v", name, x.job.Remote, err, x.board.asked, x.remote, x.err, x.asked)
		}
	}
	none := Job{LocalSize: 1, Size: 1 << 4, board: &values{}}
	if err := none.Locate(t.Context()); err == nil || !strings.Contains(err.Error(), EnvDevice) {
		t.Errorf("%v, expected an error that names %s", err, EnvDevice)
	}
}

func TestExchangeClosesTheBoard(t *testing.T) {
	for _, err := range []error{nil, errors.New("broken")} {
		b := &values{list: [][]byte{[]byte("b")}, err: err}
		j := Job{board: b}
		got, e := j.Exchange(t.Context(), []byte("a"))
		if !errors.Is(e, err) || !b.closed || err == nil && (len(got) != 2 || string(got[0])+string(got[1]) != "ab") {
			t.Errorf("%q, %v, closed %v, expected %v", got, e, b.closed, err)
		}
	}
}

// If PMIx is in the environment, its server is tried first. If its version is unknown, or it
// refuses, ranks of one host use the directory.
func TestJobUnderPMIx(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	go func() {
		for { // refuse all
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	uri := "server.0;tcp4://" + address
	for name, x := range map[string]struct {
		env  string
		want string // of the error
	}{
		"refused, one host":           {"PMIX_RANK=0 PMIX_SERVER_URI41=" + uri + " PMIX_SERVER_TMPDIR=DIR OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", ""},
		"unknown version, one host":   {"PMIX_RANK=0 PMIX_SERVER_URI2=" + uri + " PMIX_SERVER_TMPDIR=DIR OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", ""},
		"another rank, one host":      {"PMIX_RANK=1 PMIX_SERVER_URI41=" + uri + " PMIX_SERVER_TMPDIR=DIR OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", ""},
		"refused, two hosts":          {"PMIX_RANK=0 PMIX_SERVER_URI41=" + uri + " PMIX_SERVER_TMPDIR=DIR OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=2", "server refuses the connection with format v41"},
		"unknown version, two hosts":  {"PMIX_RANK=0 PMIX_SERVER_URI2=" + uri + " PMIX_SERVER_TMPDIR=DIR OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=2", "found PMIX_VERSION"},
		"another rank, two hosts":     {"PMIX_RANK=1 PMIX_SERVER_URI41=" + uri + " OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK is 1, expected 0"},
		"no server and no directory":  {"OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", "no way to exchange addresses"},
		"unknown version, nothing":    {"PMIX_RANK=0 PMIX_SERVER_URI2=" + uri + " OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", "set SOFTRDMA_RUN"},
		"refused, and no directory":   {"PMIX_RANK=0 PMIX_SERVER_URI41=" + uri + " OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", "server refuses"},
		"nothing listens, no replace": {"PMIX_RANK=0 PMIX_SERVER_URI41=server.0;tcp4://" + net.JoinHostPort("127.0.0.1", "1") + " OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_SIZE=1", "server refuses"},
	} {
		env := map[string]string{"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "job"}
		for v := range strings.FieldsSeq(strings.Replace(x.env, "=DIR", "="+t.TempDir(), 1)) {
			key, value, _ := strings.Cut(v, "=")
			env[key] = value
		}
		j, err := find(func(v string) string { return env[v] })
		var got [][]byte
		if err == nil {
			got, err = j.Exchange(within(t), []byte("value"))
		}
		switch {
		case x.want == "" && (err != nil || len(got) != 1 || string(got[0]) != "value"):
			t.Errorf("%s: %q, %v", name, got, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: %v, expected %q", name, err, x.want)
		}
	}
}
