//go:build interop && linux

package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// limit is the default time limit of a program. When polling programs occupy all processors, the
// slowest need half of it.
const limit = 90 * time.Second

// Placeholders in arguments for the addresses of the ends' devices, and for a folder that programs
// may write to.
const (
	serverAddress = "SERVER"
	clientAddress = "CLIENT"
	logFolder     = "FOLDER"
	programFile   = "FOLDER/exchange"
	serverFile    = "FOLDER/serve"
)

// A program is one command line to run, or two that run against each other.
type program struct {
	pkg    string   // Debian's package
	server []string // nil for a program that runs alone
	client []string
	env    []string

	iwarp   bool // on an iWARP device
	memory  bool // through shared memory, which is required; the others use the network stack
	apart   bool // needs two hosts: on one host, routing would choose its addresses
	lingers bool // the server never exits by itself, on any device; the run ends it
	want    string
	refused string // the message of a program that cannot run
	why     string // the reason for the refusal or for the options

	interrupted bool // a signal ends it, so its exit status is ignored

	title     string // the row's command line, where client is a script
	compiler  string // compiles source to binary, which a command line names
	source    string
	binary    string
	libraries []string // options of the compiler for them
	needs     []need   // beside the client

	job *job // for the ranks of a parallel program
}

// A need is an executable, or the path of another file, and Debian's package that has it.
type need struct{ program, pkg string }

// interrupting prefixes a program that runs until it is interrupted.
const interrupting = "timeout -s INT 2 "

// name returns the name for the output and for -run.
func (p *program) name() string {
	name := strings.TrimPrefix(strings.Join(append(append([]string(nil), p.env...), p.line()), " "), interrupting)
	if p.iwarp {
		name = "iwarp: " + name
	}
	if p.memory {
		name = "memory: " + name
	}
	if p.job != nil {
		name = p.job.name()
	}
	return name
}

// line returns the command line that the name shows.
func (p *program) line() string { return cmp.Or(p.title, strings.Join(p.client, " ")) }

// row splits the name for the table and leaves out the arguments that all rows share.
func (p *program) row() (program, options string) {
	fields := strings.Fields(strings.TrimPrefix(p.line(), interrupting))
	options = strings.NewReplacer(" -F", "", " -n "+messages, "", " -w "+warming, "").Replace(" " + strings.Join(fields[1:], " "))
	if strings.Contains(options, " "+serverAddress+" -t") || slices.Equal(p.client[:len(p.client)-1], p.server) {
		options = strings.Replace(options, " "+serverAddress, "", 1) // the only argument
	}
	return strings.Join(append(append([]string(nil), p.env...), fields[0]), " "), strings.TrimSpace(options)
}

// attempts returns how often a program may be run. On unreliable transports programs wait forever
// for a lost message, and messages are sometimes lost when all processors are busy. perftest's -R
// makes two connections in turn and does not wait until its server listens for the second one: a
// client that is too early is refused, tries again with objects it has freed, and crashes
// (create_rdma_cm_connection and rdma_cm_destroy_cma of 4.5-0.17). Over iWARP its exchange may also
// send before the other end has posted the next receive, which ends the connection. libfabric 1.17's
// ofi_rxm crashes once in some forty runs when it closes, after all messages were exchanged. rping of
// Debian 12 ends with an error if it closes its event channel before its thread reads the channel again.
func (p *program) attempts() int {
	line := p.name()
	if slices.Contains(p.client, "-R") || strings.Contains(line, "-c UC") || strings.Contains(line, "-c UD") || strings.Contains(line, "_uc_") || strings.Contains(line, "_ud_") || strings.Contains(line, "ofi_rxm") || p.client[0] == "rping" {
		return 3
	}
	return 1
}

// both returns a program whose client has the server's command line with the server's address
// appended.
func both(pkg, line, want string) program {
	f := strings.Fields(line)
	return program{pkg: pkg, server: f, client: append(append([]string(nil), f...), serverAddress), want: want}
}

// pair returns a program with a command line for each end.
func pair(pkg, server, client, want string) program {
	return program{pkg: pkg, server: strings.Fields(server), client: strings.Fields(client), want: want}
}

// alone returns a program that runs by itself on one device.
func alone(pkg, line, want string) program {
	return program{pkg: pkg, client: strings.Fields(line), want: want}
}

// refusal marks a program that cannot run, with the words of its message and the reason.
func (p program) refusal(words, why string) program {
	p.refused, p.why = words, why
	return p
}

// because records why the program has its options.
func (p program) because(why string) program {
	p.why = why
	return p
}

// ended marks a program that a signal ends.
func (p program) ended() program {
	p.interrupted = true
	return p
}

// serves marks a server that does not exit by itself.
func (p program) serves() program {
	p.lingers = true
	return p
}

// onTwoHosts marks a pair that needs two hosts.
func (p program) onTwoHosts() program {
	p.apart = true
	return p
}

// script returns a program that runs by itself and is a shell script, with the command line that
// its row shows.
func script(pkg, title, text, want string) program {
	return program{pkg: pkg, title: title, client: []string{"sh", "-c", text}, want: want}
}

// compiled marks a program that a compiler of a package makes from a source.
func (p program) compiled(compiler, pkg, source, binary string) program {
	p.compiler, p.source, p.binary = compiler, source, binary
	return p.needing(compiler, pkg)
}

// linked adds libraries to a program that is compiled.
func (p program) linked(libraries ...string) program {
	p.libraries = libraries
	return p
}

// needing adds an executable or another file that must be installed.
func (p program) needing(program, pkg string) program {
	p.needs = append(p.needs, need{program, pkg})
	return p
}

// with sets environment variables.
func (p program) with(env ...string) program {
	p.env = env
	return p
}
