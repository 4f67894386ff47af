package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// freePorts returns the first of n consecutive TCP ports on which no program listens.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for first := 21500; first < 30000; first += n {
		var taken error
		for port := first; port < first+n && taken == nil; port++ {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if taken = err; err == nil {
				l.Close()
			}
		}
		if taken == nil {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

func runProgram(t *testing.T, program func(context.Context, *flag.FlagSet, []string) error, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("30 s are over"))
	defer cancel()
	return program(ctx, flag.NewFlagSet("program", flag.ContinueOnError), args)
}

func TestRstreamEndsAgreeOverTCP(t *testing.T) {
	port := strconv.Itoa(freePorts(t, 1))
	served := make(chan error, 1)
	options := []string{"-S", "100000", "-C", "3", "-I", "2", "-T", "s", "-p", port}
	go func() { served <- runProgram(t, rstream, append(options, "-b", "127.0.0.1")...) }()
	if err := runProgram(t, rstream, append(options, "-s", "127.0.0.1")...); err != nil {
		t.Error("client:", err)
	}
	if err := <-served; err != nil {
		t.Error("server:", err)
	}
}

func TestRstreamDetectsWrongBytes(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	s := newStream(ours, 16)
	go func() {
		theirs.Write([]byte{0, 1, 2, 3})
		theirs.Write([]byte{4, 5, 7, 7})
	}()
	if err := s.receive(4); err != nil {
		t.Fatal(err)
	}
	if err := s.receive(4); err == nil {
		t.Error("a wrong byte was taken for the right one")
	}
}

// TestRstreamRunsAgainstLibrdmacm runs rstream against librdmacm's program over TCP sockets.
func TestRstreamRunsAgainstLibrdmacm(t *testing.T) {
	theirs, err := exec.LookPath("rstream")
	if err != nil {
		t.Skip("SKIPPED: librdmacm's rstream is not installed")
	}
	sizes := []int{64, 1536}
	first := freePorts(t, len(sizes)+1)
	run := func(end string, size, port int) error {
		out, err := exec.CommandContext(t.Context(), theirs, end, "127.0.0.1", "-S", strconv.Itoa(size), "-C", "5", "-I", "2",
			"-T", "v", "-T", "s", "-p", strconv.Itoa(port)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	options := []string{"-S", "64,1536", "-C", "5", "-I", "2", "-T", "s", "-p"}
	t.Run("as server", func(t *testing.T) {
		served := make(chan error, 1)
		go func() { served <- runProgram(t, rstream, append(options, strconv.Itoa(first), "-b", "127.0.0.1")...) }()
		for _, size := range sizes {
			for limit := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				if err := run("-s", size, first); err == nil {
					break
				} else if time.Now().After(limit) {
					t.Fatal(err)
				}
			}
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Run("as client", func(t *testing.T) {
		served := make(chan error, len(sizes))
		for i, size := range sizes {
			go func() { served <- run("-b", size, first+1+i) }()
		}
		if err := runProgram(t, rstream, append(options, strconv.Itoa(first+1), "-s", "127.0.0.1")...); err != nil {
			t.Error(err)
		}
		for range sizes {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	})
}
