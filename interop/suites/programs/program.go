//go:build interop && linux

package main

import (
	"slices"
	"strings"
	"time"
)

// limit is how long a program may take, where it does not say. Where all processors are taken by programs that
// poll, the slowest take half of it.
const limit = 90 * time.Second

// They stand in arguments for the addresses of the ends' devices, and for a
// folder that programs may write to.
const (
	serverAddress = "SERVER"
	clientAddress = "CLIENT"
	logFolder     = "FOLDER"
)

// A program is one way to run a program, or two of them against each other.
type program struct {
	pkg    string   // Debian's package
	server []string // nil for one that runs alone
	client []string
	env    []string

	iwarp   bool // on an iWARP device
	apart   bool // needs two hosts: on one, its addresses are the routing's choice
	lingers bool // the server goes on to serve, as everywhere; it is ended
	want    string
	refused string // what one of them says where it cannot run
	why     string // it is refused, or needs what it is given

	interrupted bool // it is ended, and its exit status tells nothing
}

// interrupting stands before a program that goes on until it is interrupted.
const interrupting = "timeout -s INT 2 "

// name is how the output and -run call it.
func (p *program) name() string {
	name := strings.TrimPrefix(strings.Join(append(append([]string(nil), p.env...), p.client...), " "), interrupting)
	if p.iwarp {
		name = "iwarp: " + name
	}
	return name
}

// row takes the name apart for the table, which leaves out what is the same for all.
func (p *program) row() (program, options string) {
	fields := strings.Fields(strings.TrimPrefix(strings.Join(p.client, " "), interrupting))
	options = strings.NewReplacer(" -F", "", " -n "+messages, "", " -w "+warming, "").Replace(" " + strings.Join(fields[1:], " "))
	if strings.Contains(options, " "+serverAddress+" -t") || slices.Equal(p.client[:len(p.client)-1], p.server) {
		options = strings.Replace(options, " "+serverAddress, "", 1) // the only argument
	}
	return strings.Join(append(append([]string(nil), p.env...), fields[0]), " "), strings.TrimSpace(options)
}

// attempts is how often a program may be run. Over the transports that repeat nothing, programs wait forever for a
// message that was lost, as one is sometimes where all processors are taken. perftest's -R makes two connections
// one after the other, and does not wait for its server to listen for the second one: the client that is too early
// is refused, tries again with what it has freed, and crashes (create_rdma_cm_connection and rdma_cm_destroy_cma of
// 4.5-0.17). Over iWARP its exchange may also send before the other end has posted the receive again, which ends the
// connection.
func (p *program) attempts() int {
	line := p.name()
	if slices.Contains(p.client, "-R") || strings.Contains(line, "-c UC") || strings.Contains(line, "-c UD") || strings.Contains(line, "_uc_") || strings.Contains(line, "_ud_") {
		return 3
	}
	return 1
}

// both makes the two command lines of a program whose client takes the server's address last.
func both(pkg, line, want string) program {
	f := strings.Fields(line)
	return program{pkg: pkg, server: f, client: append(append([]string(nil), f...), serverAddress), want: want}
}

// pair is a program with a command line for each end.
func pair(pkg, server, client, want string) program {
	return program{pkg: pkg, server: strings.Fields(server), client: strings.Fields(client), want: want}
}

// alone is a program that runs on one device.
func alone(pkg, line, want string) program {
	return program{pkg: pkg, client: strings.Fields(line), want: want}
}

// refusal is a program that says, in these words, that it cannot run, and why that is right.
func (p program) refusal(words, why string) program {
	p.refused, p.why = words, why
	return p
}

// because tells why it has the options that it has.
func (p program) because(why string) program {
	p.why = why
	return p
}

// ended marks a program that is ended by a signal.
func (p program) ended() program {
	p.interrupted = true
	return p
}

// serves marks a server that does not end by itself.
func (p program) serves() program {
	p.lingers = true
	return p
}

// onTwoHosts marks a pair that needs two.
func (p program) onTwoHosts() program {
	p.apart = true
	return p
}

// with sets variables of the environment.
func (p program) with(env ...string) program {
	p.env = env
	return p
}
