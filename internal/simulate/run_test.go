package simulate

import (
	"testing"

	"softrdma/internal/simulate/scenario"
)

func parse(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runAll(t testing.TB, text string) []*Result {
	t.Helper()
	s := parse(t, text)
	var all []*Result
	for i := range s.Variants {
		x, err := Run(s, &s.Variants[i], s.Seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// A sender that waits for nothing takes exactly the time that is computed for an empty network.
func TestMessageInEmptyNetworkTakesIdealTime(t *testing.T) {
	for _, network := range []string{
		"topology: star:3\n", "topology: fat-tree:k=4\nlinks: {speed: 40Gbit, cable: 1us}\n",
		"topology: fat-tree:k=4\nlinks: {speed: 400Gbit, cable: 1us, hosts: {speed: 25Gbit}}\n",
		"topology: star:3\nlinks: {hosts: {cable: 2us}}\nsender: {mtu: 4096}\nswitch: {hop: 1us}\n",
	} {
		for _, size := range []string{"1", "1000", "1024", "1025", "5000", "300000"} {
			x := runAll(t, network+"duration: 10ms\nvariants: [{name: a, sender: {control: none}}]\n"+
				"traffic: [{kind: message, from: 0, to: 2, size: "+size+"}]\n")[0]
			if m := x.Messages[0]; m.End-m.Start != m.Ideal {
				t.Errorf("%s bytes over %q took %d ps, computed %d", size, network, m.End-m.Start, m.Ideal)
			}
		}
	}
}
