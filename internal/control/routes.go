package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"softrdma/faults"
)

// maxBody bounds the rules that a request brings.
const maxBody = 1 << 20

func (s *server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/process", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.process()) })
	m.HandleFunc("GET /v1/devices", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.process().Devices) })
	m.HandleFunc("GET /v1/devices/{device}", s.one(func(w http.ResponseWriter, _ *http.Request, n named) { reply(w, n.info()) }))
	m.HandleFunc("GET /v1/devices/{device}/objects", s.one(func(w http.ResponseWriter, _ *http.Request, n named) { reply(w, n.Objects()) }))
	m.HandleFunc("GET /v1/devices/{device}/sample", s.one(func(w http.ResponseWriter, _ *http.Request, n named) { reply(w, n.Sample()) }))
	m.HandleFunc("GET /v1/devices/{device}/record", s.one(record))
	m.HandleFunc("GET /v1/devices/{device}/events", s.one(events))
	m.HandleFunc("GET /v1/devices/{device}/faults", s.one(func(w http.ResponseWriter, _ *http.Request, n named) { reply(w, n.faults()) }))
	m.HandleFunc("PUT /v1/devices/{device}/faults", s.change((*faults.Injector).Set))
	m.HandleFunc("POST /v1/devices/{device}/faults", s.change((*faults.Injector).Add))
	m.HandleFunc("DELETE /v1/devices/{device}/faults", func(w http.ResponseWriter, r *http.Request) {
		s.each(w, r, faults.Rules{}, (*faults.Injector).Set)
	})
	m.HandleFunc("POST /v1/fabrics/{fabric}", s.askFabric)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, http.StatusNotFound, "%s %s: expected a route below /v1/process, /v1/devices or /v1/fabrics, with a method that it has", r.Method, r.URL.Path)
	})
	return m
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client has gone
}

// Refuse replies with a status and an error, as all servers of softrdma's JSON do: {"error": "…"}.
func Refuse(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": fmt.Sprintf(format, args...)})
}

// process describes the process.
func (s *server) process() Process {
	p := Process{Version: Version, PID: os.Getpid(), Program: filepath.Base(os.Args[0]), Args: os.Args, Devices: []Info{}, Fabrics: []string{}}
	for _, n := range s.list() {
		p.Devices = append(p.Devices, n.info())
	}
	p.Fabrics = append(p.Fabrics, fabricNames(s.listFabrics())...)
	return p
}

func (n named) info() Info {
	i := n.Info()
	i.Name = n.name
	return i
}

func (n named) faults() Faults {
	x := n.Faults()
	rules, counts := x.Rules(), x.Counts()
	f := Faults{Device: n.name, Seed: rules.Seed, Rules: []Rule{}, Hits: []string{}}
	for i, r := range rules.Rules {
		c := uint64(0)
		if i < len(counts) {
			c = counts[i]
		}
		f.Rules = append(f.Rules, Rule{r, c})
	}
	for _, h := range x.Hits() {
		f.Hits = append(f.Hits, h.String())
	}
	return f
}

// one calls f for the device that the request names.
func (s *server) one(f func(http.ResponseWriter, *http.Request, named)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all := s.list()
		if i := find(w, "device", names(all), r.PathValue("device")); i >= 0 {
			f(w, r, all[i])
		}
	}
}

// find returns which of some names a request has, or refuses the request and returns -1.
func find(w http.ResponseWriter, what string, names []string, name string) int {
	i := slices.Index(names, name)
	if i < 0 {
		Refuse(w, http.StatusNotFound, "%s: expected one of %q, found %q", what, names, name)
	}
	return i
}

func names(all []named) (list []string) {
	for _, n := range all {
		list = append(list, n.name)
	}
	return list
}

func fabricNames(all []*fabric) (list []string) {
	for _, f := range all {
		list = append(list, f.name)
	}
	return list
}

func record(w http.ResponseWriter, r *http.Request, n named) {
	switch format := r.URL.Query().Get("format"); format {
	case "", "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = n.WriteRecord(w)
	case "pcapng":
		w.Header().Set("Content-Type", "application/vnd.tcpdump.pcap")
		_ = n.WriteRecordCapture(w)
	default:
		Refuse(w, http.StatusBadRequest, "format: expected text or pcapng, found %q", format)
	}
}

// askFabric passes the question in the request's body to the fabric that the request names.
func (s *server) askFabric(w http.ResponseWriter, r *http.Request) {
	all := s.listFabrics()
	i := find(w, "fabric", fabricNames(all), r.PathValue("fabric"))
	if i < 0 {
		return
	}
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		Refuse(w, http.StatusRequestEntityTooLarge, "question: %v", err)
		return
	}
	answer, err := all[i].ask(question)
	if err != nil {
		Refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may have gone
}

// change calls f with the rules in the request's body, for the devices that the request names.
func (s *server) change(f func(*faults.Injector, faults.Rules) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			Refuse(w, http.StatusRequestEntityTooLarge, "rules: %v", err)
			return
		}
		rules, err := faults.Parse(b)
		if err != nil {
			Refuse(w, http.StatusBadRequest, "rules: %v", err)
			return
		}
		s.each(w, r, rules, f)
	}
}

// all is the name of a request that is for all devices.
const all = "all"

// each calls f with rules for the devices that the request names, unless one of them refuses the rules,
// and replies with what they have then.
func (s *server) each(w http.ResponseWriter, r *http.Request, rules faults.Rules, f func(*faults.Injector, faults.Rules) error) {
	chosen := s.list()
	if name := r.PathValue("device"); name != all {
		known := names(chosen)
		chosen = slices.DeleteFunc(chosen, func(n named) bool { return n.name != name })
		if len(chosen) == 0 {
			Refuse(w, http.StatusNotFound, "device: expected %q or one of %q, found %q", all, known, name)
			return
		}
	}
	for _, n := range chosen {
		if err := n.Faults().Check(rules); err != nil {
			Refuse(w, http.StatusBadRequest, "device %s: rules: %v", n.name, err)
			return
		}
	}
	after := []Faults{}
	for _, n := range chosen {
		_ = f(n.Faults(), rules) // checked
		after = append(after, n.faults())
	}
	reply(w, after)
}
