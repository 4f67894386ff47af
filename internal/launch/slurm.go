package launch

import (
	"fmt"
	"strconv"
	"strings"
)

// slurm reads the local rank from Slurm's environment, for protocols that do not provide it.
func (j *Job) slurm(get func(string) string) error {
	const perNode, node, local = "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_LOCALID"
	if get(perNode) == "" || get(node) == "" || get(local) == "" {
		return nil
	}
	ranks, err := tasksOf(get(perNode), get(node))
	if err != nil || ranks > j.Size {
		return fmt.Errorf("launch: %s is %q and %s %q, expected numbers of %d ranks and one of them", perNode, get(perNode), node, get(node), j.Size)
	}
	r, err := strconv.Atoi(get(local))
	if err != nil || r < 0 || r >= ranks {
		return fmt.Errorf("launch: %s is %q, expected 0 to %d", local, get(local), ranks-1)
	}
	j.LocalRank, j.LocalSize = r, ranks
	return nil
}

// tasksOf returns the number of a node in a list like "2(x3),1": three nodes have 2, and one has 1.
func tasksOf(list, node string) (int, error) {
	left, err := strconv.Atoi(node)
	if err != nil || left < 0 {
		return 0, strconv.ErrRange
	}
	for word := range strings.SplitSeq(list, ",") {
		text, times, several := strings.Cut(word, "(x")
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, strconv.ErrSyntax
		}
		repeat := 1
		if several {
			if repeat, err = strconv.Atoi(strings.TrimSuffix(times, ")")); err != nil || repeat < 1 {
				return 0, strconv.ErrSyntax
			}
		}
		if left < repeat {
			return n, nil
		}
		left -= repeat
	}
	return 0, strconv.ErrRange
}
