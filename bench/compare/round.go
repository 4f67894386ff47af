package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"softrdma/bench/loop"
)

// A Run measures figures on one path.
type Run struct {
	Path     *Path
	Tools    []Tool
	Figures  []Figure
	Rounds   int
	Each     time.Duration // of one measurement
	Progress func(done, all int, w fmt.Stringer)
	Report   func(*Table) // called with the table so far after each round, if not nil
}

// A Row is a figure with its results. Ratios are computed within a round.
type Row struct {
	Figure  Figure    `json:"-"`
	Name    string    `json:"figure"`
	Of      float64   `json:"softrdma"` // in the round of the median ratio
	Against float64   `json:"peer"`     // the same
	Unit    string    `json:"unit"`
	Ratios  []float64 `json:"ratios"` // of each round; the values of an absolute figure
	Ratio   float64   `json:"ratio"`  // median
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
	Gate    float64   `json:"gate"`
	Stretch float64   `json:"stretch"`
	Missing string    `json:"missing,omitempty"` // why there is no ratio
}

// A Table has the results of a Run.
type Table struct {
	Path    string            `json:"path"`
	Rounds  int               `json:"rounds"`
	Rows    []Row             `json:"figures"`
	Results map[string]Result `json:"measurements"` // medians
}

// Do measures all figures. If a tool fails or is missing, the rows that need it say
// so. Do returns an error only if ctx ends.
func (r *Run) Do(ctx context.Context) (*Table, error) {
	works := r.works()
	found := make(map[Work][]Result)
	missing := make(map[Work]string)
	for round := range r.Rounds {
		for i, w := range works {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if missing[w] != "" {
				continue
			}
			if r.Progress != nil {
				r.Progress(round*len(works)+i, r.Rounds*len(works), w)
			}
			got, err := r.measure(ctx, w)
			if err != nil {
				missing[w] = err.Error()
				continue
			}
			found[w] = append(found[w], got)
		}
		if r.Report != nil && ctx.Err() == nil {
			r.Report(r.table(works, round+1, found, missing))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.table(works, r.Rounds, found, missing), nil
}

// table returns the table of the rounds that were measured.
func (r *Run) table(works []Work, rounds int, found map[Work][]Result, missing map[Work]string) *Table {
	t := &Table{Path: r.Path.Name, Rounds: rounds, Results: make(map[string]Result)}
	for _, w := range works {
		if missing[w] == "" {
			t.Results[w.String()] = medians(found[w])
		}
	}
	for _, f := range r.Figures {
		t.Rows = append(t.Rows, newRow(f, found, missing))
	}
	return t
}

// works returns the distinct works of all figures, in their order. The works of one
// figure are measured one after the other.
func (r *Run) works() (all []Work) {
	for _, f := range r.Figures {
		for _, m := range f.measures() {
			if !slices.Contains(all, m.Work) {
				all = append(all, m.Work)
			}
		}
	}
	return all
}

// connectTime is the time limit for connecting one of many queue pairs.
const connectTime = time.Millisecond

func (r *Run) measure(ctx context.Context, w Work) (Result, error) {
	for _, t := range r.Tools {
		if t.Name() != w.Tool {
			continue
		}
		if err := t.Check(); err != nil {
			return Result{}, err
		}
		limit := 30*time.Second + 4*r.Each + time.Duration(w.QPs)*connectTime
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%v took longer than %v", w, limit))
		defer cancel()
		got, err := t.Run(ctx, r.Path, w, r.Each)
		if err != nil && ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return got, err
	}
	return Result{}, fmt.Errorf("%s was not selected", w.Tool)
}

func newRow(f Figure, found map[Work][]Result, missing map[Work]string) Row {
	unit, scale := f.Of.Metric.show()
	row := Row{Figure: f, Name: f.Name, Unit: unit, Gate: f.Gate, Stretch: f.Stretch}
	for _, m := range f.measures() {
		if row.Missing = missing[m.Work]; row.Missing != "" {
			return row
		}
	}
	if f.Absolute() {
		row.take(values(found[f.Of.Work], f.Of.Metric), scale)
		return row
	}
	row.compare(values(found[f.Of.Work], f.Of.Metric), values(found[f.Against.Work], f.Against.Metric), scale)
	if math.IsNaN(row.Ratio) || math.IsInf(row.Ratio, 0) {
		row.Missing = fmt.Sprintf("%v of %v was not measured", f.Against.Metric, f.Against.Work)
	}
	return row
}

func values(all []Result, m Metric) (v []float64) {
	for i := range all {
		v = append(v, all[i].value(m))
	}
	return v
}

// compare fills in the row from two values of each round: the values shown are those of the
// round whose ratio is the median, so they give that ratio. scale converts them to the row's unit.
func (r *Row) compare(a, b []float64, scale float64) {
	n := min(len(a), len(b))
	order := make([]int, n) // rounds by their ratio
	for i := range n {
		order[i] = i
		r.Ratios = append(r.Ratios, a[i]/b[i])
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(r.Ratios[i], r.Ratios[j]) })
	i := order[(n-1)/2]
	r.Of, r.Against, r.Ratio = a[i]*scale, b[i]*scale, r.Ratios[i]
	r.Low, r.High = slices.Min(r.Ratios), slices.Max(r.Ratios)
}

// take fills in the row from the values of an absolute figure.
func (r *Row) take(values []float64, scale float64) {
	for _, v := range values {
		r.Ratios = append(r.Ratios, v*scale)
	}
	r.Ratio, r.Low, r.High = median(r.Ratios), slices.Min(r.Ratios), slices.Max(r.Ratios)
	r.Of = r.Ratio
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func medians(all []Result) Result {
	pick := func(get func(Result) float64) float64 {
		v := make([]float64, len(all))
		for i, r := range all {
			v[i] = get(r)
		}
		return median(v)
	}
	return Result{
		Result: loop.Result{
			Throughput: pick(func(r Result) float64 { return r.Throughput }),
			Rate:       pick(func(r Result) float64 { return r.Rate }),
			CPU:        pick(func(r Result) float64 { return r.CPU }),
			P50:        pick(func(r Result) float64 { return r.P50 }),
			P99:        pick(func(r Result) float64 { return r.P99 }),
		},

		Memory:      pick(func(r Result) float64 { return r.Memory }),
		Allocations: pick(func(r Result) float64 { return r.Allocations }),
		Idle:        pick(func(r Result) float64 { return r.Idle }),
		Wakeups:     pick(func(r Result) float64 { return r.Wakeups }),

		Resident: pick(func(r Result) float64 { return r.Resident }),
		Start:    pick(func(r Result) float64 { return r.Start }),
	}
}
