// Package cli holds what the commands of softrdma share: flags, devices, connections,
// output, exit codes and error texts. It measures nothing and imports no command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"softrdma/verbs"
)

// Exit codes are stable, so that scripts can use them. ExitCodesText documents them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitPeer        = 3
	ExitData        = 4
	ExitInterrupted = 130
	ExitTerminated  = 143

	// Exit codes for programs that cannot be started, as in shells.
	exitCannotExecute = 126
	exitNotFound      = 127
)

// ExitCodesText is the help text about exit codes.
const ExitCodesText = `softrdma exits with one of these codes:

    0   success
    1   the operation failed; the line on standard error says why
    2   the command line is wrong
    3   the peer could not be reached, went away or did not answer in time
    4   data arrived that differs from what was sent
  126   the program of softrdma exec or softrdma run cannot be executed
  127   the program of softrdma exec or softrdma run was not found
  130   interrupted by SIGINT (Ctrl-C)
  143   ended by SIGTERM

SIGINT and SIGTERM end softrdma daemon, softrdma fabric up and softrdma kubernetes
device-plugin with 0. softrdma exec and softrdma run exit with the code of their program, or with 128 plus the number of the
signal that ended it.

Every failure prints one line on standard error. If it names a status or a reason,
"softrdma explain NAME" describes the cause and the usual remedy.
`

// EnvironmentText is the help text about environment variables.
const EnvironmentText = `softrdma reads these environment variables:

  SOFTRDMA_CONTROL_DIR    directory of the sockets on which programs answer about their devices; "off" for none
  SOFTRDMA_DEVICE         the device that coll.World and package ucx open
  SOFTRDMA_FABRIC_DIR     directory of the sockets of fabrics
  SOFTRDMA_FABRIC_SECRET  file with the secret for fabrics on other hosts
  SOFTRDMA_HOST_DIR       directory in which programs on one host find each other
  SOFTRDMA_RUN, SOFTRDMA_RUN_SECRET
                          where the ranks of a job meet; softrdma run sets both
  SOFTRDMA_PSK_FILE, SOFTRDMA_TLS_CERT, SOFTRDMA_TLS_KEY, SOFTRDMA_TLS_CA
                          files with which the ranks of a job encrypt; softrdma run sets them by its flags
  SOFTRDMA_SAME_HOST      whether memory carries data on one host: auto, off, require
  LD_PRELOAD              is kept by softrdma exec and softrdma env, after their library
  NO_COLOR                drawings and softrdma top have no colors
  NOTIFY_SOCKET           softrdma daemon says there when it serves (systemd)
  TMPDIR                  directory of the files of softrdma exec, /tmp by default
  XDG_CACHE_HOME          has the libraries of softrdma exec and softrdma env in softrdma/
  XDG_RUNTIME_DIR         has the sockets of a user's daemon and fabrics in softrdma/

softrdma exec and softrdma env set LD_PRELOAD, SOFTRDMA_ENGINE, SOFTRDMA_ENGINE_REQUIRED,
SOFTRDMA_ENGINE_VERBOSE, and SOFTRDMA_SOCKET and SOFTRDMA_TREE of a server or SOFTRDMA_START,
the command that starts one.

softrdma run sets SOFTRDMA_RANK, SOFTRDMA_SIZE, SOFTRDMA_LOCAL_RANK and
SOFTRDMA_LOCAL_SIZE for the processes that it starts.
`

// FilesText is the help text about files.
const FilesText = `softrdma uses these files:

  $XDG_RUNTIME_DIR/softrdma/socket        of softrdma daemon, with a directory socket.d
  $XDG_RUNTIME_DIR/softrdma/fabric/NAME   of softrdma fabric up
  $XDG_RUNTIME_DIR/softrdma/control/PID   of programs that have devices, for softrdma fault and top
  $XDG_RUNTIME_DIR/softrdma/host/         sockets of devices, for other programs on the host
  /dev/shm/softrdma-env-*                 of servers that programs of softrdma env start
  /etc/cdi/softrdma-rdma.json             of softrdma cdi generate as root
  /var/lib/softrdma/                      files and shared folders of containers, of root

For root the first four are in /run/softrdma. Without XDG_RUNTIME_DIR they are in
/tmp/softrdma-daemon-UID, /tmp/softrdma-fabric-UID, /tmp/softrdma-control-UID and
/tmp/softrdma-host-UID.
`

// An ExitError is an error with the exit code of the command.
type ExitError struct {
	code    int
	err     error
	program bool   // the code is that of another program
	help    string // the command whose help explains it; empty for the one that failed
}

func (e *ExitError) Error() string { return e.err.Error() }
func (e *ExitError) Unwrap() error { return e.err }

// WithCode returns err with an exit code.
func WithCode(code int, err error) error { return &ExitError{code: code, err: err} }

// ProgramError returns an error of a program that the command has run. Its exit code becomes
// that of the command, whatever its meaning, even if a signal has ended both.
func ProgramError(code int, err error) error { return &ExitError{code: code, err: err, program: true} }

// StartError adds the exit code to an error about a program that cannot be started.
func StartError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return ProgramError(exitNotFound, err)
	}
	return ProgramError(exitCannotExecute, err)
}

// OfProgram reports whether an error is a ProgramError.
func OfProgram(err error) bool {
	e := (*ExitError)(nil)
	return errors.As(err, &e) && e.program
}

// UsageErrorf returns an error about the command line.
func UsageErrorf(format string, args ...any) error {
	return &ExitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// PeerErrorf returns an error about a peer that cannot be reached, has gone or does not
// answer.
func PeerErrorf(format string, args ...any) error {
	return &ExitError{code: ExitPeer, err: fmt.Errorf(format, args...)}
}

// DataErrorf returns an error about data that differs from what was sent.
func DataErrorf(format string, args ...any) error {
	return &ExitError{code: ExitData, err: fmt.Errorf(format, args...)}
}

// ExitCode returns the exit code of a command that failed with err.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e := (*ExitError)(nil); errors.As(err, &e) {
		return e.code
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return ExitPeer
	}
	if c := (*verbs.CompletionError)(nil); errors.As(err, &c) {
		switch c.Status {
		case verbs.RetryExcErr, verbs.RNRRetryExcErr, verbs.RespTimeoutErr:
			return ExitPeer
		}
	}
	return ExitFailed
}

// OneLine returns the message of an error as Text does.
func OneLine(err error) string { return Text(err.Error()) }

// Text returns a string without line breaks. What is no text is escaped, because a part of the string may be a
// peer's, and a terminal would take it for commands. Text of what it has returned is the same.
func Text(s string) string {
	var b strings.Builder
	for s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "); s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		if q := strconv.Quote(s[:n]); r != '\t' && (!unicode.IsPrint(r) || r == utf8.RuneError) {
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// named matches a name in front of its explanation, such as the name in a daemon's refusal.
var named = regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+: `)

// Line returns the line for standard error about an error that a command ended with. If the
// operation failed for a named reason that the text does not contain, Line adds the name, for
// softrdma explain. Errors about a peer that does not answer already say what to do.
func Line(err error) string {
	line := OneLine(err)
	var why verbs.ReasonError
	if ExitCode(err) != ExitFailed || !errors.As(err, &why) || strings.Contains(line, why.Reason()) || named.MatchString(line) {
		return line
	}
	return fmt.Sprintf("%s (see: softrdma explain %s)", line, why.Reason())
}

// ErrSignalled is returned by a command that a signal is expected to end, such as a
// daemon.
var ErrSignalled = WithCode(ExitOK, errors.New("ended by a signal"))
