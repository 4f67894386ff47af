package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// exchanged checks that each rank gets all values.
func exchanged(t *testing.T, n int, exchange func(rank int, value []byte) ([][]byte, error)) {
	t.Helper()
	errs := make(chan error, n)
	for r := range n {
		go func() {
			values, err := exchange(r, fmt.Appendf(nil, "value %d", r))
			if err == nil && len(values) != n {
				err = fmt.Errorf("%d values", len(values))
			}
			for i, v := range values {
				if string(v) != fmt.Sprintf("value %d", i) {
					err = fmt.Errorf("rank %d has %q of rank %d", r, v, i)
				}
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// gave reports whether a rank has given its value.
func (s *Server) gave(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[rank] != nil
}

func TestExchangeGivesAllValuesToAll(t *testing.T) {
	const n = 5
	secret := NewSecret()
	t.Run("server", func(t *testing.T) {
		s := Serve(listen(t), secret, n, time.Minute)
		defer s.Close()
		exchanged(t, n, func(r int, value []byte) ([][]byte, error) {
			c := Client{Address: s.Addr().String(), Secret: secret, Rank: r, Size: n, Wait: time.Minute}
			return c.Exchange(within(t), value)
		})
	})
	t.Run("rank 0 serves", func(t *testing.T) {
		address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
		exchanged(t, n, func(r int, value []byte) ([][]byte, error) {
			c := Client{Address: address, Secret: secret, Rank: r, Size: n, Serve: r == 0, Wait: time.Minute}
			return c.Exchange(within(t), value)
		})
	})
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		exchanged(t, n, func(r int, value []byte) ([][]byte, error) {
			d := directoryExchange{dir, r, n, time.Minute}
			return d.Exchange(within(t), value)
		})
	})
}

func TestExchangeRefusesOtherSecretsAndValues(t *testing.T) {
	secret := NewSecret()
	s := Serve(listen(t), secret, 2, time.Minute)
	defer s.Close()
	ask := func(ctx context.Context, secret []byte, rank int, value string) error {
		c := Client{Address: s.Addr().String(), Secret: secret, Rank: rank, Size: 2, Wait: time.Minute}
		_, err := c.Exchange(ctx, []byte(value))
		return err
	}
	if err := ask(within(t), NewSecret(), 0, "x"); !errors.Is(err, ErrSecret) {
		t.Errorf("another secret: %v", err)
	}
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	if err := ask(ctx, secret, 0, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no second rank: %v", err)
	}
	if err := ask(within(t), secret, 0, "y"); err == nil {
		t.Error("a rank has two values")
	}
	if err := ask(within(t), secret, 2, "y"); err == nil {
		t.Error("rank 2 of 2")
	}
	wrong := Serve(listen(t), NewSecret(), 1, time.Minute)
	defer wrong.Close()
	c := Client{Address: wrong.Addr().String(), Secret: secret, Size: 1, Wait: time.Minute}
	if _, err := c.Exchange(within(t), nil); !errors.Is(err, ErrSecret) {
		t.Errorf("a server with another secret: %v", err)
	}
}

// If a rank does not join an exchange, it ends for all others with an error that names the
// rank.
func TestExchangeNamesMissingRanks(t *testing.T) {
	const n, wait = 4, 20 * time.Millisecond
	secret := NewSecret()
	named := func(t *testing.T, err error, want string) {
		t.Helper()
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, expected a MissingError with %q", err, want)
		}
	}
	ask := func(s *Server, rank int) error {
		c := Client{Address: s.Addr().String(), Secret: secret, Rank: rank, Size: n, Wait: time.Minute}
		_, err := c.Exchange(within(t), []byte("x"))
		return err
	}
	t.Run("server", func(t *testing.T) {
		s := Serve(listen(t), secret, n, wait)
		defer s.Close()
		const want = "found none of ranks 0, 1, 3"
		named(t, ask(s, 2), want)
		named(t, ask(s, 1), want) // too late
		named(t, s.Err(), want)
	})
	t.Run("a rank has ended", func(t *testing.T) {
		const want = "expected the addresses of 4 ranks, found that rank 3 ended without giving one"
		for _, before := range []bool{false, true} {
			s := Serve(listen(t), secret, n, time.Minute)
			defer s.Close()
			if before {
				s.Ended(3)
				if err := s.Err(); err != nil { // perhaps no rank exchanges values
					t.Error(err)
				}
			}
			first := make(chan error, 1)
			go func() { first <- ask(s, 2) }()
			if !before {
				for !s.gave(2) {
					time.Sleep(time.Millisecond)
				}
				s.Ended(2) // no longer matters
				s.Ended(3)
			}
			named(t, <-first, want)
			named(t, ask(s, 1), want) // too late
			named(t, s.Err(), want)
		}
	})
	t.Run("rank 0 serves", func(t *testing.T) {
		address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
		c := Client{Address: address, Secret: secret, Size: 2, Serve: true, Wait: time.Second} // time to dial, too
		_, err := c.Exchange(within(t), []byte("x"))
		named(t, err, "found none of rank 1")
	})
	t.Run("nobody serves", func(t *testing.T) {
		address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "tcp"))
		c := Client{Address: address, Secret: secret, Rank: 1, Size: 2, Wait: wait}
		if _, err := c.Exchange(within(t), nil); err == nil || !strings.Contains(err.Error(), "rank 0 to listen at "+address) {
			t.Errorf("found %v", err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		d := directoryExchange{t.TempDir(), 0, n, wait}
		_, err := d.Exchange(within(t), []byte("x"))
		named(t, err, "found none of ranks 1, 2, 3")
	})
	named(t, newMissing(make([][]byte, 20), time.Second), "14, 15 and 4 more")
}

func TestEnvironmentNamesRanks(t *testing.T) {
	secret := strings.Repeat("ab", MinSecret)
	for name, c := range map[string]struct {
		env  string
		want string
	}{
		"softrdma run":  {"SOFTRDMA_RANK=1 SOFTRDMA_SIZE=4 SOFTRDMA_LOCAL_RANK=1 SOFTRDMA_LOCAL_SIZE=2 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=" + secret, "1/4 1/2"},
		"mpirun":        {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_SERVER_TMPDIR=/tmp/x", "2/3 2/3"},
		"mpirun, hosts": {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_SERVER_TMPDIR=/tmp/x", "no way to exchange"},
		"srun":          {"SLURM_PROCID=2 SLURM_NTASKS=3 SLURM_LOCALID=1 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=" + secret, "2/3 1/1"},
		"srun, pmix":    {"SLURM_PROCID=2 SLURM_NTASKS=3 SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=3 PMIX_SERVER_TMPDIR=/tmp/x", "2/3 2/3"},
		"srun, hosts":   {"SLURM_PROCID=5 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=2(x3),1 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=" + secret, "5/7 1/2"},
		"last host":     {"SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE=2(x3),1 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=" + secret, "6/7 0/1"},
		"no such host":  {"SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_NODEID=4 SLURM_STEP_TASKS_PER_NODE=2(x3),1", "SLURM_STEP_TASKS_PER_NODE"},
		"no list":       {"SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2(x", "SLURM_STEP_TASKS_PER_NODE"},
		"local rank":    {"SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=3 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=3(x2),1", "SLURM_LOCALID"},
		"none":          {"", ErrNotStarted.Error()},
		"rank":          {"SOFTRDMA_RANK=4 SOFTRDMA_SIZE=4 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=" + secret, `SOFTRDMA_RANK is "4"`},
		"size":          {"SOFTRDMA_RANK=4", `SOFTRDMA_SIZE is ""`},
		"secret":        {"SOFTRDMA_RANK=0 SOFTRDMA_SIZE=4 SOFTRDMA_RUN=h:1 SOFTRDMA_RUN_SECRET=abc", EnvSecret},
		"PMI":           {"PMI_RANK=0 PMI_SIZE=1 PMI_FD=x", "PMI_FD"},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(c.env) {
			key, value, _ := strings.Cut(v, "=")
			env[key] = value
		}
		j, err := find(func(name string) string { return env[name] })
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%d/%d %d/%d", j.Rank, j.Size, j.LocalRank, j.LocalSize)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
	}
}

// FuzzRequest parses a client's message. Only one with the code of the secret is accepted.
func FuzzRequest(f *testing.F) {
	secret, nonce := NewSecret(), NewSecret()
	good := request{Rank: 1, Nonce: nonce, Value: []byte("x")}
	good.Code = good.code(secret, nonce)
	text, err := json.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(text, '\n'))
	f.Add([]byte("{\"rank\":-1}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseRequest(bufio.NewReader(bytes.NewReader(b)), secret, nonce, 2)
		if err == nil && (q.Rank < 0 || q.Rank > 1 || !bytes.Equal(q.Code, q.code(secret, nonce))) {
			t.Errorf("accepted %+v", q)
		}
	})
}

// FuzzPMI parses the answers of a launcher.
func FuzzPMI(f *testing.F) {
	f.Add("cmd=get_result rc=0 msg=success value=61\n")
	f.Add("cmd=get_result rc=-1 msg=no\n")
	f.Add("cmd=get_result value=\n=\n")
	f.Fuzz(func(t *testing.T, line string) {
		words, err := parsePMI(line, "get_result")
		if err == nil && (words["cmd"] != "get_result" || words["rc"] != "0" && words["rc"] != "") {
			t.Errorf("accepted %q", line)
		}
	})
}

// answers is a launcher that gives fixed answers, and records the requests.
type answers struct {
	io.Reader
	sent bytes.Buffer
}

func (a *answers) Write(b []byte) (int, error) { return a.sent.Write(b) }

func TestPMIExchange(t *testing.T) {
	a := &answers{Reader: strings.NewReader(`cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
cmd=my_kvsname kvsname=kvs_1
cmd=put_result rc=0 msg=success
cmd=barrier_out
cmd=get_result rc=0 msg=success value=6162
cmd=get_result rc=0 msg=success value=63
cmd=finalize_ack
`)}
	p, err := newPMI(a, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	values, err := p.share(t.Context(), "address", []byte("c"))
	if err != nil || len(values) != 2 || string(values[0]) != "ab" || string(values[1]) != "c" {
		t.Errorf("%q, %v", values, err)
	}
	if err := p.leave(); err != nil {
		t.Error(err)
	}
	if want := "cmd=put kvsname=kvs_1 key=softrdma-address-1 value=63\ncmd=barrier_in\n"; !strings.Contains(a.sent.String(), want) {
		t.Errorf("sent %q, expected %q in it", a.sent.String(), want)
	}
	if _, err := newPMI(&answers{Reader: strings.NewReader("cmd=response_to_init rc=-1\n")}, 0, 1); !errors.Is(err, ErrPMI) {
		t.Errorf("%v, expected %v", err, ErrPMI)
	}
}
