package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"softrdma/internal/control"
	fabric "softrdma/internal/fabric/control"
	"softrdma/internal/sampler"
)

// timeLimit is how long programs have to answer.
const timeLimit = 2 * time.Second

// A Snapshot is what the page shows of all programs at one moment.
type Snapshot struct {
	*sampler.Report
	Fabrics []Fabric `json:"fabrics"`
}

// A Fabric describes a fabric of a program.
type Fabric struct {
	PID    int            `json:"pid"`
	Name   string         `json:"name"`
	Status *fabric.Status `json:"status,omitempty"`
	Links  []fabric.Link  `json:"links,omitempty"`
	Error  string         `json:"error,omitempty"`

	socket control.Socket
	links  *fabric.Reply // with the loads of Links
}

// A gatherer takes samples for all pages together.
type gatherer struct {
	fresh time.Duration // a sample that is not older is used again

	mu      sync.Mutex
	sampler sampler.Sampler
	sample  *sampler.Sample
	fabrics []Fabric // of that sample
	encoded []byte
}

// gather returns a snapshot as JSON. What it compares it with is the one before, of any page.
func (g *gatherer) gather(ctx context.Context) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sample != nil && time.Since(g.sample.At) < g.fresh {
		return g.encoded, nil
	}
	now := g.sampler.Take(ctx, timeLimit)
	if err := ctx.Err(); err != nil {
		return nil, err // the page has gone: the next one compares with what was before
	}
	all := []Fabric{}
	for _, p := range now.Processes {
		for _, name := range p.Fabrics {
			all = append(all, Fabric{PID: p.Socket.PID, Name: name, socket: p.Socket})
		}
	}
	control.EachAtOnce(all, func(i int, _ Fabric) error { g.askFabric(ctx, &all[i]); return nil })
	b, err := json.Marshal(Snapshot{sampler.Compare(g.sample, now), all})
	if err != nil {
		return nil, err
	}
	g.sample, g.fabrics, g.encoded = now, all, b
	return b, nil
}

// askFabric asks a fabric for its nodes and cables.
func (g *gatherer) askFabric(ctx context.Context, r *Fabric) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	status, err := question(ctx, &g.sampler.Asker, r.socket, r.Name, fabric.Request{Verb: fabric.VerbStatus})
	if err == nil {
		r.links, err = question(ctx, &g.sampler.Asker, r.socket, r.Name, fabric.Request{Verb: fabric.VerbLinks})
	}
	if err != nil {
		r.Error = err.Error()
		return
	}
	for _, before := range g.fabrics {
		if before.PID == r.PID && before.Name == r.Name && before.links != nil {
			fabric.Loads(before.links, r.links)
		}
	}
	r.Status, r.Links = status.Status, r.links.Links
}

// question asks a fabric of a process.
func question(ctx context.Context, a *control.Asker, s control.Socket, name string, r fabric.Request) (*fabric.Reply, error) {
	b, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	reply := new(fabric.Reply)
	return reply, a.Ask(ctx, s, http.MethodPost, "/v1/fabrics/"+url.PathEscape(name), b, reply)
}
