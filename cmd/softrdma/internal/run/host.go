package run

import (
	"strconv"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/launch"
)

// A host has some of the ranks.
type host struct {
	name  string // "" means this one
	ranks int
}

// plan returns the hosts and their numbers of ranks. -n distributes ranks to the hosts in
// turn, or limits the numbers in --hosts.
func (s *options) plan() ([]host, error) {
	if s.n < 0 || s.n > launch.MaxRanks {
		return nil, cli.UsageErrorf("-n: expected 1 to %d, found %d", launch.MaxRanks, s.n)
	}
	if s.hosts == "" {
		return []host{{"", max(s.n, 1)}}, nil
	}
	var list []host
	left := s.n
	for word := range strings.SplitSeq(s.hosts, ",") {
		name, count, given := strings.Cut(word, ":")
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > launch.MaxRanks {
				return nil, cli.UsageErrorf("--hosts: expected HOST or HOST:RANKS, found %q", word)
			}
		}
		if name == "" || strings.HasPrefix(name, "-") {
			return nil, cli.UsageErrorf("--hosts: expected the name of a host, found %q", word)
		}
		if name == "localhost" {
			name = ""
		}
		if s.n > 0 {
			n = min(n, left)
			left -= n
		}
		if n > 0 {
			list = append(list, host{name, n})
		}
	}
	if left > 0 {
		return nil, cli.UsageErrorf("--hosts: room for %d ranks, expected %d", s.n-left, s.n)
	}
	total := 0
	for _, h := range list {
		total += h.ranks
	}
	if total > launch.MaxRanks {
		return nil, cli.UsageErrorf("--hosts: %d ranks, expected at most %d", total, launch.MaxRanks)
	}
	return list, nil
}
