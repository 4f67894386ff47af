//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/coll"
)

// role is the environment variable that selects what this program does as a rank.
const role = "SOFTRDMA_TEST_RUN_ROLE"

func TestMain(m *testing.M) {
	if what := os.Getenv(role); what != "" {
		os.Exit(beRank(what))
	}
	clitest.Main(m)
}

func beRank(what string) int {
	rank := os.Getenv("SOFTRDMA_RANK")
	switch what {
	case "absent": // rank 1 does not join
		if rank == "1" {
			time.Sleep(clitest.Timeout)
		}
		return said(sum())
	case "early": // rank 1 ends without joining
		if rank == "1" {
			return 0
		}
		return said(sum())
	case "sum":
		return said(sum())
	case "fail": // rank 1 fails, the others wait
		if rank == "1" {
			return 7
		}
		fallthrough
	case "wait":
		fmt.Println("waiting")
		time.Sleep(clitest.Timeout)
	case "killed":
		if rank == "2" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		time.Sleep(clitest.Timeout)
	case "signal":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		fmt.Println("waiting")
		fmt.Println("got", <-c)
	case "input":
		b, err := io.ReadAll(os.Stdin)
		fmt.Printf("%d bytes, %v\n", len(b), err)
	case "secret":
		fmt.Println(os.Getenv("SOFTRDMA_PSK_FILE"))
	case "device":
		fmt.Println(os.Getenv("SOFTRDMA_DEVICE"), os.Getenv("SOFTRDMA_LOCAL_RANK"), os.Getenv("SOFTRDMA_LOCAL_SIZE"), os.Getenv("EXTRA"))
	}
	return 0
}

// said prints an error, and returns the exit code.
func said(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// sum adds up the ranks on all ranks.
func sum() error {
	ctx, cancel := context.WithTimeout(context.Background(), clitest.Timeout)
	defer cancel()
	g, err := coll.World(ctx)
	if err != nil {
		return err
	}
	x := []int{g.Rank(), 1}
	if err := coll.AllReduce(ctx, g, x, x, coll.Sum[int]()); err != nil {
		return err
	}
	if n := g.Size(); x[0] != n*(n-1)/2 || x[1] != n {
		return errors.New("wrong sums")
	}
	fmt.Printf("rank %d: sum %d\n", g.Rank(), x[0])
	return g.Close(ctx)
}
