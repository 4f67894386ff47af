//go:build interop && linux

package exec

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// Programs with their devices in their own processes exchange data while their execs are killed,
// one after the other, and continue. Their addresses and files are in use until they end. The next exec
// has the address, and removes the files.
func TestProgramsGoOnWhenTheirExecIsKilled(t *testing.T) {
	clitest.NeedPrograms(t, "gcc", "sh", "true")
	program := compileVerbs(t, "bystander")
	clitest.Command(t)                      // which is built before TMPDIR is set
	t.Setenv("TMPDIR", clitest.ShortDir(t)) // an exec that is killed leaves its files
	for _, path := range []string{"off", "require"} {
		t.Run("same-host "+path, func(t *testing.T) {
			first, second := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
			a, b := startUnder(t, program, first, path), startUnder(t, program, second, path)
			exchange(a, b)
			for _, killed := range []*under{a, b} {
				killed.kill()
				a.goesOn()
				b.goesOn()
				clitest.Start(t, "exec", "-d", killed.addr, "--", "true").Fails(cli.ExitFailed, killed.addr, "already in use")
			}
			if n := len(folders(t)); n != 2 {
				t.Errorf("%d directories of execs are there, expected those of both programs", n)
			}
			endBoth(a, b)
			a, b = startUnder(t, program, first, path), startUnder(t, program, second, path)
			exchange(a, b)
			a.goesOn()
			b.goesOn()
			endBoth(a, b)
			<-a.exec.Ended
			<-b.exec.Ended
			if left := folders(t); len(left) > 0 {
				t.Errorf("found %v in the end", left)
			}
		})
	}
}

// folders returns the directories of execs.
func folders(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "softrdma-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A program without a device of its own holds no files: what it was started with has gone with the
// server.
func TestNextExecRemovesWhatAKilledOneHasLeft(t *testing.T) {
	clitest.NeedPrograms(t, "sh", "true")
	clitest.Command(t) // which is built before TMPDIR is set
	t.Setenv("TMPDIR", clitest.ShortDir(t))
	first, second := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
	program := clitest.Prepare(t, "exec", "-d", first, "--", "sh", "-c", "echo begun; read line")
	in, err := program.Cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() // ends the program
	program.Start()
	program.Prints("begun")
	clitest.Run(t, "exec", "-d", second, "--", "true")
	if left := folders(t); len(left) != 1 {
		t.Fatalf("found %v beside a running exec, expected its directory", left)
	}
	if err := program.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-program.Ended
	left := folders(t)
	next := clitest.Start(t, "exec", "-v", "-d", second, "--", "true")
	if code := next.ExitCode(); code != 0 {
		t.Errorf("code %d: %s", code, &next.Stderr)
	}
	if want := "removed " + left[0]; !strings.Contains(next.Stderr.String(), want) {
		t.Errorf("expected %q, found %s", want, &next.Stderr)
	}
	if left := folders(t); len(left) > 0 {
		t.Errorf("found %v in the end", left)
	}
}

// under is a bystander under an exec. Files of the test are its standard input, output and error:
// it needs nothing of exec's process.
type under struct {
	t       *testing.T
	addr    string
	exec    *clitest.Process
	in      *os.File
	out     *bufio.Scanner
	errors  string // the file of standard error
	program int    // the descriptor of the program's process
	queue   string // the queue pair, as it tells its peer
}

func startUnder(t *testing.T, program, addr, path string) *under {
	t.Helper()
	in, toProgram, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromProgram, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	failed, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = toProgram.Close(); _ = fromProgram.Close() }) // which ends the program, if it still runs
	u := &under{t: t, addr: addr, in: toProgram, out: bufio.NewScanner(fromProgram), errors: failed.Name()}
	u.exec = clitest.Prepare(t, "exec", "-d", addr, "--engine", "program", "--same-host", path, "--", "sh", "-c", `echo $$; exec "$0"`, program)
	u.exec.Cmd.Stdin, u.exec.Cmd.Stdout, u.exec.Cmd.Stderr = in, out, failed
	u.exec.Start()
	for _, f := range []*os.File{in, out, failed} {
		_ = f.Close()
	}
	pid, err := strconv.Atoi(u.line())
	if err != nil {
		t.Fatal(err)
	}
	if u.program, err = unix.PidfdOpen(pid, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(u.program) })
	u.queue = u.line()
	return u
}

// exchange connects two programs and lets them begin.
func exchange(a, b *under) {
	a.tell(b.queue)
	b.tell(a.queue)
	for _, u := range []*under{a, b} {
		if l := u.line(); l != "connected" {
			u.t.Fatalf("%s: %q", u.addr, l)
		}
	}
	a.tell("begin")
	b.tell("begin")
}

// kill kills exec, and not its program.
func (u *under) kill() {
	u.t.Helper()
	if err := u.exec.Cmd.Process.Kill(); err != nil {
		u.t.Fatal(err)
	}
	<-u.exec.Ended
}

// goesOn checks that the program exchanges data from now on.
func (u *under) goesOn() {
	u.t.Helper()
	u.tell("count")
	before := u.exchanged()
	u.tell("count")
	if after := u.exchanged(); after <= before {
		u.t.Errorf("%s: %d exchanges, expected more than %d", u.addr, after, before)
	}
}

// endBoth ends both exchanges before a program ends, and then the programs.
func endBoth(a, b *under) {
	for _, u := range []*under{a, b} {
		u.t.Helper()
		u.tell("end")
		u.exchanged()
	}
	a.end()
	b.end()
}

// end waits for the end of the program.
func (u *under) end() {
	u.t.Helper()
	_ = u.in.Close()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(u.program), Events: unix.POLLIN}}, int(clitest.Timeout/time.Millisecond)); n != 1 {
		u.t.Fatalf("%s: the program does not end: %v", u.addr, err)
	}
	if said, err := os.ReadFile(u.errors); len(said) > 0 || err != nil {
		u.t.Errorf("%s: %s %v", u.addr, said, err)
	}
}

func (u *under) tell(line string) {
	u.t.Helper()
	if _, err := fmt.Fprintln(u.in, line); err != nil {
		u.t.Fatal(err)
	}
}

func (u *under) line() string {
	u.t.Helper()
	if !u.out.Scan() {
		said, _ := os.ReadFile(u.errors)
		u.t.Fatalf("%s: the program has ended: %v\n%s", u.addr, u.out.Err(), said)
	}
	return u.out.Text()
}

func (u *under) exchanged() (n int) {
	u.t.Helper()
	if l := u.line(); l == "" {
		u.t.Fatalf("%s: an empty line", u.addr)
	} else if _, err := fmt.Sscanf(l, "exchanged %d", &n); err != nil {
		u.t.Fatalf("%s: %q", u.addr, l)
	}
	return n
}
