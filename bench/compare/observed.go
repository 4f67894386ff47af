package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// lookEvery is how often metrics are scraped, and how often the page of the console asks.
const lookEvery = time.Second

// An observer scrapes the metrics of both ends of a measurement, and asks softrdma console as its page
// does, each second.
type observer struct {
	dir     string // with the sockets of the metrics
	console *daemon
	cancel  context.CancelFunc
	result  chan error
}

// observe starts an observer for two programs that are given the flags of [observer.metrics].
func (s Softrdma) observe(ctx context.Context, p *Path) (o *observer, err error) {
	if p.machine != nil {
		return nil, errors.New("observing needs a path on this machine")
	}
	o = &observer{result: make(chan error, 1)}
	if o.dir, err = os.MkdirTemp("", "bench"); err != nil { // short: a socket's path has 108 bytes
		return nil, err
	}
	var said string
	if o.console, said, err = p.startServer(ctx, "#token=", s.Path, "console"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(o.dir))
	}
	page, err := url.Parse(said)
	if err != nil {
		o.console.stop()
		return nil, errors.Join(err, os.RemoveAll(o.dir))
	}
	token, err := url.ParseQuery(page.Fragment)
	page.Fragment, page.Path = "", "/api/snapshot"
	ctx, o.cancel = context.WithCancel(ctx)
	go func() { o.result <- errors.Join(err, o.watch(ctx, page.String(), token.Get("token"))) }()
	return o, nil
}

func (o *observer) socket(end int) string { return filepath.Join(o.dir, fmt.Sprint(end)) }

// metrics returns the flag of the program at an end.
func (o *observer) metrics(end int) string { return "--metrics=" + o.socket(end) }

// watch looks until the context ends. It fails if it has never seen everything, since such a measurement
// would not be observed.
func (o *observer) watch(ctx context.Context, page, token string) error {
	unix := func(end int) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.socket(end))
		}}}
	}
	looks := []func() error{
		func() error { return get(ctx, unix(client), "http://metrics/metrics", "") },
		func() error { return get(ctx, unix(server), "http://metrics/metrics", "") },
		func() error { return get(ctx, http.DefaultClient, page, token) },
	}
	last := make([]error, len(looks))
	for i := range last {
		last[i] = errors.New("nothing was asked")
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for i, look := range looks {
			if err := look(); last[i] != nil {
				last[i] = err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(last...)
		}
	}
}

// get reads a page.
func get(ctx context.Context, c *http.Client, at, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Softrdma-Token", token)
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", at, a.Status)
	}
	_, err = io.Copy(io.Discard, a.Body)
	return err
}

// stop ends the observer, and returns why it has not observed something.
func (o *observer) stop() error {
	o.cancel()
	err := <-o.result
	o.console.stop()
	return errors.Join(err, os.RemoveAll(o.dir))
}

// observedFigures returns what it costs that metrics are scraped each second, and that the console is open.
func observedFigures() []Figure {
	figure := func(name string, of Work, m Metric, gate, stretch float64) Figure {
		against := of
		of.Observed = true
		return Figure{"observed: " + name + ", of unobserved", Measure{of, m}, Measure{against, m}, m == P50, gate, stretch}
	}
	write := func(k Kind, bytes int) Work { return Work{Tool: "softrdma", Kind: k, Op: "write", Bytes: bytes} }
	return []Figure{
		figure("1 MiB WRITE", write(Stream, mib), Throughput, .97, .99),
		figure("8 B WRITE rate", write(Stream, word), Rate, .97, .99),
		figure("8 B WRITE latency", write(Ping, word), P50, 1.03, 1.01),
	}
}
