package pmix

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestFromEnvironment(t *testing.T) {
	base := map[string]string{
		"PMIX_NAMESPACE": "job", "PMIX_RANK": "3", "PMIX_SECURITY_MODE": "munge,native", "PMIX_VERSION": "4.2.2",
		"PMIX_SERVER_URI41": "server.0;tcp4://127.0.0.1:4000", "PMIX_SERVER_URI3": "server.0;tcp6://[::1]:3000", "PMIX_SERVER_URI2": "x",
	}
	for name, x := range map[string]struct {
		change  map[string]string
		module  string
		address string
		err     error
		want    string
	}{
		"as of OpenPMIx 4.1":    {nil, "v41", "127.0.0.1:4000", nil, ""},
		"3":                     {map[string]string{"PMIX_SERVER_URI41": ""}, "v3", "[::1]:3000", nil, ""},
		"2":                     {map[string]string{"PMIX_SERVER_URI41": "", "PMIX_SERVER_URI3": "", "PMIX_VERSION": "2.0.1"}, "", "", ErrVersion, `found PMIX_VERSION "2.0.1" with PMIX_SERVER_URI2`},
		"no server":             {map[string]string{"PMIX_SERVER_URI41": "", "PMIX_SERVER_URI3": "", "PMIX_SERVER_URI2": ""}, "", "", ErrAbsent, ""},
		"no job":                {map[string]string{"PMIX_NAMESPACE": ""}, "", "", ErrAbsent, ""},
		"long job":              {map[string]string{"PMIX_NAMESPACE": strings.Repeat("x", 256)}, "", "", ErrEnvironment, "at most 255 bytes"},
		"no rank":               {map[string]string{"PMIX_RANK": ""}, "", "", ErrEnvironment, `PMIX_RANK is ""`},
		"socket in a directory": {map[string]string{"PMIX_SERVER_URI41": "server.0;usock:/tmp/x"}, "", "", ErrEnvironment, "expected NAME;tcp4://HOST:PORT"},
		"no address":            {map[string]string{"PMIX_SERVER_URI41": "server.0;tcp4://host:4000"}, "", "", ErrEnvironment, "expected an IP address"},
		"no port":               {map[string]string{"PMIX_SERVER_URI41": "server.0;tcp4://127.0.0.1:0"}, "", "", ErrEnvironment, "expected an IP address and a port"},
		"security":              {map[string]string{"PMIX_SECURITY_MODE": "munge"}, "", "", ErrVersion, `PMIX_SECURITY_MODE is "munge", expected native or none`},
	} {
		env := maps.Clone(base)
		maps.Copy(env, x.change)
		s, err := FromEnvironment(func(v string) string { return env[v] })
		if x.err != nil {
			if !errors.Is(err, x.err) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, expected %v with %q", name, err, x.err, x.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Namespace != "job" || s.Rank != 3 || s.format.module != x.module || s.address != x.address || s.security != "native" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
