// Package console serves a page on which a browser shows what the devices and fabrics of this user's
// programs do, and the routes that the page reads.
//
// It owns who may ask ([Server.ServeHTTP]), and gathers what the programs answer on their control
// sockets. It keeps nothing but the last sample, and asks the programs only while a page asks it.
//
// # Routes
//
//	GET    /                                            the page
//	GET    /api/snapshot                                programs, devices, queue pairs, rates, fabrics
//	GET    /api/scenarios                               scenarios of faults, with their files
//	GET    /api/explain?q=WORDS                         what softrdma explain says
//	POST   /api/captures                                the ladder of the captures in a form
//	GET    /api/processes/PID/devices/DEVICE/objects    all objects of a device
//	GET    /api/processes/PID/devices/DEVICE/record     its flight recorder as pcapng
//	GET    /api/processes/PID/devices/DEVICE/ladder     the same as a ladder
//	GET    /api/processes/PID/devices/DEVICE/qps/QPN    what the flight recorders of its ends have of a queue pair
//	GET    /api/processes/PID/devices/DEVICE/faults     its rules, and which scenarios are on
//	PUT    /api/processes/PID/devices/DEVICE/faults/X   switches scenario X on
//	DELETE /api/processes/PID/devices/DEVICE/faults/X   switches it off
//	DELETE /api/processes/PID/devices/DEVICE/faults     removes all rules
//	POST   /api/processes/PID/fabrics/FABRIC            asks a fabric: trace, deadlock, link-down, link-up
//
// [Server.Handle] adds others. Routes below /api need the token. An error is {"error": "…"} with a status of HTTP.
package console

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"softrdma/internal/control"
)

//go:embed page
var page embed.FS

// TokenHeader is the header of requests that has the token.
const TokenHeader = "Softrdma-Token"

// policy lets the page load its own files, and run no script and load no image from anywhere else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// NewToken returns a token of 128 random bits.
func NewToken() string { return rand.Text() }

// A Server answers a browser. It is an http.Handler, which any number of goroutines may call.
type Server struct {
	token string
	name  string // by which browsers may ask, besides addresses
	local bool   // only loopback addresses
	api   *http.ServeMux
	files http.Handler
	gatherer
}

// New returns a server for a listener at an address. name is the host name by which browsers may also
// ask, "" if there is none.
func New(token string, at netip.AddrPort, name string) *Server {
	static, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the name is not valid
	}
	s := &Server{token: token, name: name, local: at.Addr().Unmap().IsLoopback(), files: http.FileServerFS(static)}
	s.fresh = 400 * time.Millisecond
	s.api = http.NewServeMux()
	s.routes()
	return s
}

// Handle adds routes below /api, which need the token as all others do. It is called before the server serves.
func (s *Server) Handle(pattern string, h http.Handler) { s.api.Handle(pattern, h) }

// ServeHTTP implements http.Handler. Requests that name another host are refused: a page of another site
// can give its own name the address of this server, and would then count as the same site.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !s.knows(r.Host) {
		control.Refuse(w, http.StatusForbidden, "Host: expected %s, found %q", s.expectedHost(), r.Host)
		return
	}
	if r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/") {
		switch token := r.Header.Get(TokenHeader); {
		case token == "":
			control.Refuse(w, http.StatusUnauthorized, "%s: expected the token of the printed URL, found none", TokenHeader)
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
			control.Refuse(w, http.StatusUnauthorized, "%s: expected the token of the printed URL, found another", TokenHeader)
		default:
			s.api.ServeHTTP(w, r)
		}
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		control.Refuse(w, http.StatusMethodNotAllowed, "method of %s: expected GET, found %s", r.URL.Path, r.Method)
		return
	}
	s.files.ServeHTTP(w, r)
}

// knows reports whether a request names this server.
func (s *Server) knows(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	if strings.EqualFold(name, "localhost") || s.name != "" && strings.EqualFold(name, s.name) {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && (!s.local || a.Unmap().IsLoopback())
}

func (s *Server) expectedHost() string {
	switch {
	case s.name != "":
		return "localhost, an address or " + s.name
	case s.local:
		return "localhost or a loopback address"
	}
	return "localhost or an address"
}

func reply(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		control.Refuse(w, http.StatusInternalServerError, "reply: %v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the browser has gone
}
