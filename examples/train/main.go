// Train fits a small model to data on four ranks, each of which has a quarter of the data. After
// each step the ranks add their gradients, so all continue with the same model. Rank 0 compares the
// result with the same training in one process.
//
// Run it by itself, and it starts its ranks; or run it with softrdma run -n 4 -- go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"sync"

	"softrdma/coll"
	"softrdma/msg"
	"softrdma/verbs"
)

// The task: learn y = sin(3x₀)·x₁ from samples, by a network with one layer of hidden units.
const (
	samples = 512
	inputs  = 2
	hidden  = 32
	weights = hidden*(inputs+1) + hidden + 1
	steps   = 300
	rate    = .2
)

type sample struct{ x0, x1, y float64 }

func data() []sample {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]sample, samples)
	for i := range all {
		x0, x1 := 2*r.Float64()-1, 2*r.Float64()-1
		all[i] = sample{x0, x1, math.Sin(3*x0) * x1}
	}
	return all
}

func model() []float64 {
	r := rand.New(rand.NewPCG(3, 4))
	w := make([]float64, weights)
	for i := range w {
		w[i] = r.NormFloat64() / 2
	}
	return w
}

// gradient adds the gradient of the squared error over some samples to sum, and the error to its
// last element.
func gradient(w []float64, part []sample, sum []float64) {
	var out [hidden]float64
	last := w[hidden*(inputs+1):]
	for _, s := range part {
		y := last[hidden]
		for h := range hidden {
			u := w[h*(inputs+1):]
			out[h] = math.Tanh(u[0]*s.x0 + u[1]*s.x1 + u[2])
			y += last[h] * out[h]
		}
		d := y - s.y
		sum[weights] += d * d
		at := hidden * (inputs + 1)
		sum[at+hidden] += d
		for h := range hidden {
			sum[at+h] += d * out[h]
			g := d * last[h] * (1 - out[h]*out[h])
			sum[h*3] += g * s.x0
			sum[h*3+1] += g * s.x1
			sum[h*3+2] += g
		}
	}
}

// train trains the model with the gradients that reduce makes of those of this rank's samples. It
// returns the model and the mean error before the last step.
func train(part []sample, reduce func(gradients []float64) error) (w []float64, loss float64, err error) {
	w = model()
	for range steps {
		sum := make([]float64, weights+1)
		gradient(w, part, sum)
		if err := reduce(sum); err != nil {
			return nil, 0, err
		}
		for i := range w {
			w[i] -= rate * sum[i] / samples
		}
		loss = sum[weights] / samples
	}
	return w, loss, nil
}

// rank is one of the ranks.
func rank(ctx context.Context, g *coll.Group) error {
	all := data()
	n := samples / g.Size()
	part := all[g.Rank()*n:]
	if g.Rank() < g.Size()-1 {
		part = part[:n]
	}
	w, loss, err := train(part, func(gradients []float64) error {
		return coll.AllReduce(ctx, g, gradients, gradients, coll.Sum[float64]())
	})
	if err != nil {
		return err
	}
	if g.Rank() == 0 {
		single, first, err := train(all, func([]float64) error { return nil })
		if err != nil {
			return err
		}
		far := 0.
		for i := range w {
			far = max(far, math.Abs(w[i]-single[i]))
		}
		fmt.Printf("%d ranks: error %.4f; one process: error %.4f; largest difference of a weight: %.0e\n", g.Size(), loss, first, far)
		if far > 1e-9 || loss > .05 {
			return errors.New("the models differ, or have learnt nothing")
		}
	}
	return g.Close(ctx)
}

func main() {
	ctx := context.Background()
	g, err := coll.World(ctx)
	if errors.Is(err, coll.ErrNotStarted) {
		inOneProcess(ctx, 4)
		return
	}
	check(err)
	check(rank(ctx, g))
}

// inOneProcess runs the ranks as goroutines with a device each.
func inOneProcess(ctx context.Context, n int) {
	var workers []*msg.Worker
	var addresses [][]byte
	for i := range n {
		w := must(msg.NewWorker(must(verbs.Open(device(i), verbs.Config{})), msg.Config{}))
		workers, addresses = append(workers, w), append(addresses, w.Address())
	}
	var ranks sync.WaitGroup
	for i, w := range workers {
		ranks.Go(func() {
			check(rank(ctx, must(coll.New(ctx, w, coll.Config{Rank: i, Addresses: addresses}))))
		})
	}
	ranks.Wait()
}

// device names a device for each rank: one address with a UDP port each.
func device(i int) string { return fmt.Sprintf("127.0.0.1:%d", verbs.Port+100+i) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
