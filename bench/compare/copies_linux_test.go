package compare

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/bench/relay"
)

// Copies of a file over a long path, by softrdma and by what Debian has. It takes minutes, so it runs only if asked to:
//
//	cd bench && sudo SOFTRDMA_PROGRAM=$PWD/../bin/softrdma go test -count=1 -v -run TestCopiesOverALongPath ./compare
//
// SOFTRDMA_COPIES_MIB is the length of the file (16), SOFTRDMA_COPIES_MS the round trip (100), SOFTRDMA_COPIES_LOSS the
// loss in per cent (1).
func TestCopiesOverALongPath(t *testing.T) {
	program := wanProgram(t)
	number := func(name string, zero float64) float64 {
		if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
			return v
		}
		return zero
	}
	mib, ms, loss := number("SOFTRDMA_COPIES_MIB", 16), number("SOFTRDMA_COPIES_MS", 100), number("SOFTRDMA_COPIES_LOSS", 1)
	r, err := NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := relay.Config{Rate: 500e6, Delay: time.Duration(ms / 2 * float64(time.Millisecond)), Loss: loss / 100, Seed: 1}
	c.Queue = int(float64(c.Rate) / 8 * ms / 1000)
	if err := r.Start(c); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Stop() }()
	x := copies{t: t, r: r, dir: t.TempDir(), program: program}
	x.prepare(int(mib * (1 << 20)))
	t.Logf("a file of %v MiB, 500 Mbit/s, round trip %v ms, %v %% of the packets lost in each direction", mib, ms, loss)
	for _, how := range x.all() {
		t.Run(how.name, func(t *testing.T) {
			x.t = t
			x.measure(how, mib)
		})
	}
}

// A copying is a way to copy a file: a server that is started before, if there is one, and the client's command.
type copying struct {
	name           string
	server, client string
	needs          string // a program
}

type copies struct {
	t       *testing.T
	r       *Relay
	dir     string
	program string
	data    []byte
}

// prepare makes the file, the secret, and a server of SSH with its keys.
func (x *copies) prepare(n int) {
	x.prepareFile(n)
	x.shell("ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user; cp user.pub authorized; mkdir -p /run/sshd")
	x.must(os.WriteFile(x.path("sshd_config"), fmt.Appendf(nil, "HostKey %s\nAuthorizedKeysFile %s\nPermitRootLogin yes\nStrictModes no\nSubsystem sftp internal-sftp\nPort 2222\n",
		x.path("host"), x.path("authorized")), 0o600))
}

// prepareFile makes the file, the secret, and the directory for copies.
func (x *copies) prepareFile(n int) {
	x.data = make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(x.data)
	x.must(os.WriteFile(x.path("file"), x.data, 0o600))
	x.must(os.Mkdir(x.path("in"), 0o700))
	x.secret()
}

// secret makes the shared secret.
func (x *copies) secret() {
	x.must(os.WriteFile(x.path("psk"), []byte(strings.Repeat("secret of a test ", 4)), 0o600))
}

// all are the ways to copy. {S} is the server's address.
func (x *copies) all() []copying {
	const ssh = "ssh -F none -i user -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
	sshd := "/usr/sbin/sshd -D -f " + x.path("sshd_config")
	p := x.program
	return []copying{
		{"rcopy, RoCE in PSP", p + " rcopy --once --dir in --psk-file psk -a {S}", p + " rcopy --psk-file psk file {S}:copy", ""},
		{"cat, RoCE in PSP", p + " cat --psk-file psk -l {S}:7000 > in/copy < /dev/null", p + " cat -v --psk-file psk {S} 7000 < file", ""},
		{"rcopy, iWARP with TLS", p + " rcopy --protocol iwarp --once --dir in --psk-file psk -a {S}", p + " rcopy --protocol iwarp --psk-file psk file {S}:copy", ""},
		{"rcopy, RoCE in the clear", p + " rcopy --same-host off --once --dir in -a {S}", p + " rcopy --same-host off file {S}:copy", ""},
		{"scp", sshd, "scp -F none -i user -P 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -q file {S}:" + x.path("in/copy"), "scp"},
		{"rsync over ssh", sshd, "rsync -W -e '" + ssh + "' file {S}:" + x.path("in/copy"), "rsync"},
		{"rclone over sftp", sshd, "rclone --config /dev/null copyto file ':sftp,host={S},port=2222,user=root,key_file=" + x.path("user") + ":" + x.path("in/copy") + "'", "rclone"},
	}
}

// measure copies the file one way, and compares the bytes.
func (x *copies) measure(how copying, mib float64) {
	if how.needs != "" {
		if _, err := exec.LookPath(how.needs); err != nil {
			x.t.Logf("%-26s not installed", how.name)
			return
		}
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Minute)
	defer cancel()
	_ = os.Remove(x.path("in/copy"))
	s := x.command(ctx, server, how.server)
	x.must(s.Start())
	time.Sleep(2 * time.Second) // until it listens
	began := time.Now()
	out, err := x.command(ctx, client, how.client).CombinedOutput()
	took := time.Since(began)
	if strings.Contains(how.server, x.program) && err == nil {
		_ = s.Wait()
	} else {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	got, _ := os.ReadFile(x.path("in/copy"))
	if err != nil || !bytes.Equal(got, x.data) {
		x.t.Errorf("%-26s failed after %.1f s: %v, %d of %d bytes: %s", how.name, took.Seconds(), err, len(got), len(x.data), out)
		return
	}
	x.t.Logf("%-26s %6.1f s %7.1f Mbit/s %s", how.name, took.Seconds(), mib*(1<<20)*8/1e6/took.Seconds(), lastLine(out))
}

// lastLine returns the last line of a command's output.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// command runs a line of the shell at one end.
func (x *copies) command(ctx context.Context, end int, line string) *exec.Cmd {
	words := append(x.r.Path.Inside[end], "sh", "-c", "cd "+x.dir+"; exec "+strings.ReplaceAll(line, "{S}", x.r.Path.Server.String()))
	return exec.CommandContext(ctx, words[0], words[1:]...)
}

func (x *copies) shell(line string) {
	if out, err := exec.Command("sh", "-c", "cd "+x.dir+"; "+line).CombinedOutput(); err != nil {
		x.t.Fatalf("%s: %v: %s", line, err, out)
	}
}

func (x *copies) path(name string) string { return filepath.Join(x.dir, name) }

func (x *copies) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}
