package compare

import (
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/bench/loop"
)

func TestProgramHasADeviceOfItsOwnAtEachEnd(t *testing.T) {
	m := &machine{answer: perftestStream}
	p := Guest(m, nil)
	w := Work{Tool: ProgramName, Kind: Stream, Op: "write", Bytes: word, MTU: 4096}
	if r, err := (Program{Path: "softrdma"}).Run(t.Context(), p, w, time.Second); err != nil || r.Rate != 6424 {
		t.Fatalf("%+v, %v", r, err)
	}
	for end, argv := range [2][]string{client: m.ran[0], server: m.served[0]} {
		want := []string{"softrdma", "exec", "--engine", "program", "-d", p.device(end), "--same-host", "off", "--", "stdbuf"}
		if !slices.Equal(argv[:len(want)], want) {
			t.Errorf("ran %q, expected %q", argv, want)
		}
	}
}

func TestUCXOnProgramsDevicesUsesVerbs(t *testing.T) {
	m := &machine{answer: "500,1,1,1,1,1,1,1\n"}
	u := UCX{Programs: "softrdma"}
	if _, err := u.Run(t.Context(), Guest(m, nil), Work{Kind: Ping, Op: "tag_lat", Bytes: word}, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{m.served[0], m.ran[0]} {
		line := strings.Join(argv, " ")
		if !strings.HasPrefix(line, "softrdma exec --engine program -d ") || !strings.Contains(line, "-- env UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=rxe0:1 ") {
			t.Errorf("ran %q", line)
		}
	}
}

func TestMPIRunsBothRanksOnOneDevice(t *testing.T) {
	w := Work{Op: mpiAllReduce, Bytes: mib}
	line := strings.Join(MPI{Path: "softrdma"}.command(Loopback(), "/tmp/mpi", w, time.Second/2), " ")
	if !strings.HasPrefix(line, "softrdma exec --engine program -d 127.12.0.1 --same-host off -- mpirun.openmpi -n 2 ") ||
		!strings.Contains(line, "-x UCX_TLS=rc_v,ud_v,self -x UCX_NET_DEVICES=rxe0:1 ") || !strings.HasSuffix(line, " /tmp/mpi all-reduce 1048576 0.5") {
		t.Errorf("ran %q", line)
	}
	line = strings.Join(MPI{TCP: true}.command(Loopback(), "/tmp/mpi", w, time.Second), " ")
	if !strings.HasPrefix(line, "mpirun.openmpi -n 2 ") || !strings.Contains(line, "-x UCX_TLS=tcp,self ") {
		t.Errorf("ran %q", line)
	}
	line = strings.Join(MPI{Host: true}.command(Loopback(), "/tmp/mpi", w, time.Second), " ")
	if !strings.HasPrefix(line, "mpirun.openmpi -n 4 ") || strings.Contains(line, "ucx") || !strings.HasSuffix(line, " /tmp/mpi all-reduce 1048576 1") {
		t.Errorf("ran %q", line)
	}
}

func TestParseMPI(t *testing.T) {
	if r, err := parseMPI("operations 83333 median_us 5.912\n"); err != nil || r != (Result{Result: loop.Result{P50: 5.912}}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, out := range []string{"", "operations 0 median_us 1", "operations 5 median_us 0", "operations 5", "no ranks"} {
		if r, err := parseMPI(out); err == nil {
			t.Errorf("%q reads as %+v", out, r)
		}
	}
}

func TestParseResident(t *testing.T) {
	if n, err := parseResident([]byte("VmHWM:\t    9000 kB\nVmRSS:\t    7312 kB\nRssAnon:\t 200 kB\n")); err != nil || n != 7312<<10 {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "VmRSS:", "VmRSS: x kB\n", "VmRSS: 12 MB\n"} {
		if n, err := parseResident([]byte(text)); err == nil {
			t.Errorf("%q reads as %d", text, n)
		}
	}
}
