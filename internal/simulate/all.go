package simulate

import (
	"fmt"
	"runtime"
	"sync"

	"softrdma/internal/simulate/scenario"
)

// RunAll simulates each variant of a scenario with seeds from a first one on, on a number of workers, or
// on as many as there are processors if that is 0. There is a run for each of them; if there are fewer
// runs, several work on one. The results are by variant, then by seed. It ends early when stop, which may
// be nil, returns true. done, which may be nil, is called after each run, from any goroutine.
func RunAll(s *scenario.Scenario, first uint64, seeds, workers int, stop func() bool, done func(*Result)) ([][]*Result, error) {
	type task struct{ variant, seed int }
	tasks := make(chan task)
	results := make([][]*Result, len(s.Variants))
	for i := range results {
		results[i] = make([]*Result, seeds)
	}
	errs := make([]error, len(s.Variants)*seeds)
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	together := min(workers, len(errs))
	var wait sync.WaitGroup
	for range together {
		wait.Go(func() {
			for t := range tasks {
				v := &s.Variants[t.variant]
				x, err := Run(s, v, first+uint64(t.seed), workers/together, stop)
				if err != nil {
					errs[t.variant*seeds+t.seed] = fmt.Errorf("%s, seed %d: %w", v.Name, first+uint64(t.seed), err)
					continue
				}
				results[t.variant][t.seed] = x
				if done != nil {
					done(x)
				}
			}
		})
	}
	for v := range s.Variants {
		for seed := range seeds {
			tasks <- task{v, seed}
		}
	}
	close(tasks)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}
