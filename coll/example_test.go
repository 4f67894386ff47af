package coll_test

import (
	"context"
	"fmt"
	"log"

	"softrdma/coll"
)

// A program that prints the sum of what all ranks have. Start it with softrdma run.
func ExampleWorld() {
	ctx := context.Background()
	g, err := coll.World(ctx) // the programs that were started together
	if err != nil {
		log.Fatal(err)
	}
	x := []float64{1, float64(g.Rank())}
	if err := coll.AllReduce(ctx, g, x, x, coll.Sum[float64]()); err != nil {
		log.Fatal(err) // names the rank that failed
	}
	fmt.Printf("rank %d of %d: %v\n", g.Rank(), g.Size(), x)
	if err := g.Close(ctx); err != nil {
		log.Fatal(err)
	}
}
