package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/control"
	fabric "softrdma/internal/fabric/control"
	"softrdma/internal/object"
)

// maxBody bounds what a request brings.
const maxBody = 1 << 20

func (s *Server) routes() {
	s.api.HandleFunc("GET /api/snapshot", s.snapshot)
	s.api.HandleFunc("GET /api/scenarios", func(w http.ResponseWriter, _ *http.Request) { reply(w, allScenarios()) })
	s.api.HandleFunc("GET /api/explain", explainLine)
	s.api.HandleFunc("POST /api/captures", openCaptures)
	const device = "/api/processes/{pid}/devices/{device}/"
	s.api.HandleFunc("GET "+device+"objects", of(objects))
	s.api.HandleFunc("GET "+device+"record", of(record))
	s.api.HandleFunc("GET "+device+"ladder", of(recorded))
	s.api.HandleFunc("GET "+device+"qps/{qpn}", of(s.queuePair))
	s.api.HandleFunc("GET "+device+"faults", of(getFaults))
	s.api.HandleFunc("DELETE "+device+"faults", of(clearFaults))
	s.api.HandleFunc("PUT "+device+"faults/{scenario}", of(switchScenario(true)))
	s.api.HandleFunc("DELETE "+device+"faults/{scenario}", of(switchScenario(false)))
	s.api.HandleFunc("POST /api/processes/{pid}/fabrics/{fabric}", of(askFabric))
	s.api.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		control.Refuse(w, http.StatusNotFound, "%s %s: expected a route of the console, with a method that it has", r.Method, r.URL.Path)
	})
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	b, err := s.gather(r.Context())
	if err != nil {
		control.Refuse(w, http.StatusInternalServerError, "snapshot: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the browser has gone
}

// of calls f with the process that a request names. An error of f is one of the process.
func of(f func(http.ResponseWriter, *http.Request, control.Socket) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sockets, err := control.Sockets()
		if err != nil {
			control.Refuse(w, http.StatusInternalServerError, "programs: %v", err)
			return
		}
		pid := r.PathValue("pid")
		i := slices.IndexFunc(sockets, func(s control.Socket) bool { return strconv.Itoa(s.PID) == pid })
		if i < 0 {
			control.Refuse(w, http.StatusNotFound, "process: expected one that answers, found %q", pid)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
		defer cancel()
		if err := f(w, r.WithContext(ctx), sockets[i]); err != nil {
			control.Refuse(w, http.StatusBadGateway, "%v", err)
		}
	}
}

// path returns the route of a process for what a request asks of a device.
func path(r *http.Request, what string) string {
	return control.DevicePath(r.PathValue("device"), what)
}

func objects(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	var l object.List
	if err := s.Ask(r.Context(), http.MethodGet, path(r, "objects"), nil, &l); err != nil {
		return err
	}
	reply(w, l)
	return nil
}

// record is the flight recorder as a file.
func record(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	var b bytes.Buffer
	if err := s.Ask(r.Context(), http.MethodGet, path(r, "record?format=pcapng"), nil, &b); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/vnd.tcpdump.pcap")
	w.Header().Set("Content-Disposition", "attachment")
	_, _ = w.Write(b.Bytes()) // the browser has gone
	return nil
}

// verbs are what the page asks fabrics.
var verbs = []string{fabric.VerbTrace, fabric.VerbLinkDown, fabric.VerbLinkUp, fabric.VerbDeadlock}

func askFabric(w http.ResponseWriter, r *http.Request, s control.Socket) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		control.Refuse(w, http.StatusRequestEntityTooLarge, "request: %v", err)
		return nil
	}
	var q fabric.Request
	if err := json.Unmarshal(b, &q); err != nil {
		control.Refuse(w, http.StatusBadRequest, "request: expected an object with verb and args: %v", err)
		return nil
	}
	if !slices.Contains(verbs, q.Verb) {
		control.Refuse(w, http.StatusBadRequest, "verb: expected one of %s, found %q", strings.Join(verbs, ", "), q.Verb)
		return nil
	}
	answer, err := question(r.Context(), new(control.Asker), s, r.PathValue("fabric"), fabric.Request{Verb: q.Verb, Args: q.Args})
	if err != nil {
		return err
	}
	reply(w, answer)
	return nil
}
