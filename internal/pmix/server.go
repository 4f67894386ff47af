package pmix

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Server is what the environment of a program says about its host's PMIx server, and about
// the program's place in the job.
type Server struct {
	Namespace string // of the job: the same in all its programs
	Rank      uint32
	address   string // host and port
	security  string // how the server authenticates a client
	format    format
}

// variables are the variables in which servers of all versions publish their address.
var variables = []string{"PMIX_SERVER_URI61", "PMIX_SERVER_URI51", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
	"PMIX_SERVER_URI3", "PMIX_SERVER_URI21", "PMIX_SERVER_URI2", "PMIX_SERVER_URI2USOCK", "PMIX_SERVER_URI"}

// FromEnvironment returns the server that has started this program. Its error matches
// ErrAbsent if there is none, and ErrVersion if its protocol is not supported.
func FromEnvironment(get func(string) string) (*Server, error) {
	found := slices.DeleteFunc(slices.Clone(variables), func(v string) bool { return get(v) == "" })
	if len(found) == 0 || get("PMIX_NAMESPACE") == "" {
		return nil, ErrAbsent
	}
	i := slices.IndexFunc(formats, func(f format) bool { return get(f.variable) != "" })
	if i < 0 || strconv.IntSize != 64 { // the header has another length on other hosts
		return nil, fmt.Errorf("%w: found PMIX_VERSION %q with %s on a host of %d bits, expected %s or %s on one of 64",
			ErrVersion, get("PMIX_VERSION"), strings.Join(found, ", "), strconv.IntSize, formats[0].variable, formats[1].variable)
	}
	s := &Server{Namespace: get("PMIX_NAMESPACE"), format: formats[i]}
	if len(s.Namespace) > maxName || strings.ContainsRune(s.Namespace, 0) {
		return nil, fmt.Errorf("%w: PMIX_NAMESPACE is %q, expected at most %d bytes", ErrEnvironment, s.Namespace, maxName)
	}
	rank, err := strconv.ParseUint(get("PMIX_RANK"), 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%w: PMIX_RANK is %q, expected a number", ErrEnvironment, get("PMIX_RANK"))
	}
	s.Rank = uint32(rank)
	if s.address, err = parseURI(get(s.format.variable)); err != nil {
		return nil, fmt.Errorf("%w: %s %w", ErrEnvironment, s.format.variable, err)
	}
	s.security, err = security(get("PMIX_SECURITY_MODE"))
	return s, err
}

// maxName is the length of the longest name of a job, and of the longest key.
const maxName = 255

// parseURI returns the host and port of a URI like "pmix-server.0;tcp4://127.0.0.1:40000".
func parseURI(uri string) (string, error) {
	_, address, ok := strings.Cut(uri, ";")
	scheme, rest, _ := strings.Cut(address, "://")
	i := strings.LastIndexByte(rest, ':')
	if !ok || scheme != "tcp4" && scheme != "tcp6" || i < 0 {
		return "", fmt.Errorf("is %q, expected NAME;tcp4://HOST:PORT or NAME;tcp6://HOST:PORT", uri)
	}
	host, err := netip.ParseAddr(strings.Trim(rest[:i], "[]"))
	port, wrong := strconv.ParseUint(rest[i+1:], 10, 16)
	if err != nil || wrong != nil || port == 0 {
		return "", fmt.Errorf("is %q, expected an IP address and a port", uri)
	}
	return net.JoinHostPort(host.String(), strconv.FormatUint(port, 10)), nil
}

// security returns the first supported mode in the server's list.
func security(list string) (string, error) {
	for name := range strings.SplitSeq(list, ",") {
		if name == securityNative || name == securityNone {
			return name, nil
		}
	}
	if list == "" {
		return securityNative, nil
	}
	return "", fmt.Errorf("%w: PMIX_SECURITY_MODE is %q, expected %s or %s", ErrVersion, list, securityNative, securityNone)
}
