//go:build interop && linux

package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/console"
	"softrdma/internal/testenv"
)

// All tools have the bytes and packets of ib_write_bw: the sysfs tree, node_exporter, iproute2's netlink,
// perfquery's management datagrams, Prometheus, softrdma top and softrdma console. They are asked after the
// last byte, while both programs still have their devices: the last messages between the programs are held.
func TestProgramsAndAllToolsAgree(t *testing.T) {
	clitest.NeedPrograms(t, "ib_write_bw", "rdma", "perfquery")
	for _, engine := range []string{"program", "daemon"} {
		t.Run(engine, func(t *testing.T) {
			const size, count = 1 << 20, 2000
			t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
			server, client, metrics := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t), filepath.Join(clitest.ShortDir(t), "metrics")
			c := &counted{
				addresses: [2]string{server, client}, metrics: metrics,
				shell: startSession(t, "--engine", engine, "--metrics", metrics, "-d", server, "-d", client),
			}
			c.exporter = testenv.NodeExporter(t, strings.TrimSpace(c.shell.run("echo $SOFTRDMA_TREE/sys")))
			c.console = startConsole(t)

			port := clitest.FreePort(t)
			p := newHeld(t, port, func() bool { return c.prometheus()[0].bytes > 0 })
			const program = "ib_write_bw --report_gbits -F -s %d -n %d -d rxe%d -p %s %s"
			c.shell.run(fmt.Sprintf(program, size, count, 0, port, ">/dev/null 2>&1 &"))
			out := filepath.Join(t.TempDir(), "client")
			c.shell.run(fmt.Sprintf(program, size, count, 1, p.port(), "127.0.0.1 >"+out+" 2>&1 &"))

			const bytes = size * count
			await(t, "all bytes", func() bool { return p.held.Load() && c.prometheus()[0].bytes == bytes })
			c.agree(t, bytes)
			p.release()
			var reported string
			await(t, "ib_write_bw's report", func() bool {
				text, err := os.ReadFile(out)
				reported = string(text)
				return err == nil && regexp.MustCompile(`(?m)^ +`+strconv.Itoa(size)+` +`+strconv.Itoa(count)+` +`).Match(text)
			})
			if t.Failed() {
				t.Log(reported)
			}
		})
	}
}

// A figure is what the port that receives has received, or that the port that sends has sent.
type figure struct{ bytes, packets int }

// A counted asks all tools about the ports of two addresses: the first receives, the other sends.
type counted struct {
	addresses         [2]string
	shell             *session
	metrics           string // socket
	exporter, console func() string
}

// agree checks that all tools have the bytes. What is sent may contain repeated packets.
func (c *counted) agree(t *testing.T, bytes int) {
	t.Helper()
	want := c.prometheus()
	if want[0].bytes != bytes || want[1].bytes < bytes || want[1].bytes > bytes*11/10 || want[0].packets == 0 {
		t.Errorf("Prometheus: expected %d bytes, found %+v", bytes, want)
	}
	all := map[string]func() [2]figure{
		"sysfs": c.sysfs, "rdma": c.netlink, "perfquery": c.perfquery, "node_exporter": c.nodeExporter,
		"softrdma top":     func() [2]figure { return c.report(clitest.Run(t, "top", "--once", "--json", "--interval", "200ms")) },
		"softrdma console": func() [2]figure { return c.report(c.console()) },
	}
	for _, tool := range slices.Sorted(maps.Keys(all)) {
		expected := want
		for i := range expected { // of what the tool does not have
			switch tool {
			case "rdma":
				expected[i].bytes = 0
			case "softrdma top", "softrdma console":
				expected[i].packets = 0
			}
		}
		var found [2]figure
		for end := time.Now().Add(clitest.Timeout); found != expected && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			found = all[tool]()
		}
		if found != expected {
			t.Errorf("%s: expected bytes and packets %v, found %v", tool, expected, found)
		}
	}
}

// both calls f for the port that receives and the one that sends, with its number and direction.
func both(f func(port, direction int) figure) [2]figure { return [2]figure{f(0, 0), f(1, 1)} }

// number returns the number that follows a text, -1 without one.
func number(text, before string) int {
	m := regexp.MustCompile(`(?m)` + before + `([0-9.e+]+)`).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return int(n)
}

// word is the unit of the standard's counters of data, in bytes.
const word = 4

// scrape returns the metrics.
func (c *counted) scrape() string {
	unix := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.metrics)
	}}
	return get(&http.Client{Transport: unix}, "http://metrics/metrics", nil)
}

func (c *counted) prometheus() [2]figure {
	text := c.scrape()
	return both(func(port, direction int) figure {
		name := func(what string) string {
			return fmt.Sprintf(`^softrdma_%s_%s_total{address=%q,device="rxe%d"} `, []string{"received", "transmitted"}[direction], what, c.addresses[port], port)
		}
		return figure{number(text, name("payload_bytes")), number(text, name("packets"))}
	})
}

func (c *counted) sysfs() [2]figure {
	return both(func(port, direction int) figure {
		text := c.shell.run(fmt.Sprintf(`cd /sys/class/infiniband/rxe%d/ports/1/counters; for i in data packets; do echo $i $(cat port_%s_$i); done`, port, []string{"rcv", "xmit"}[direction]))
		return figure{word * number(text, "data "), number(text, "packets ")}
	})
}

func (c *counted) netlink() [2]figure {
	return both(func(port, direction int) figure {
		text := c.shell.run(fmt.Sprintf("rdma -j statistic show link rxe%d/1", port))
		return figure{0, number(text, []string{`"rcvd_pkts":`, `"sent_pkts":`}[direction])}
	})
}

func (c *counted) perfquery() [2]figure {
	return both(func(port, direction int) figure {
		text := c.shell.run(fmt.Sprintf("perfquery -x -C rxe%d -P 1", port))
		of := []string{"PortRcv", "PortXmit"}[direction]
		return figure{word * number(text, of+`Data:\.+`), number(text, of+`Pkts:\.+`)}
	})
}

func (c *counted) nodeExporter() [2]figure {
	text := c.exporter()
	return both(func(port, direction int) figure {
		name := func(what string) string {
			return fmt.Sprintf(`^node_infiniband_port_%s_total{device="rxe%d",port="1"} `, what, port)
		}
		of := []string{"received", "transmitted"}[direction]
		return figure{number(text, name("data_"+of+"_bytes")), number(text, name("packets_"+of))}
	})
}

// report adds up what a report of softrdma top or softrdma console has of all devices of the addresses.
func (c *counted) report(text string) (f [2]figure) {
	var r struct {
		Processes []struct {
			Devices []struct {
				Address  string
				Sent     int `json:"sent_bytes"`
				Received int `json:"received_bytes"`
			}
		}
	}
	if json.Unmarshal([]byte(text), &r) != nil {
		return f
	}
	for _, p := range r.Processes {
		for _, d := range p.Devices {
			switch address, _, _ := strings.Cut(d.Address, ":"); address {
			case c.addresses[0]:
				f[0].bytes += d.Received
			case c.addresses[1]:
				f[1].bytes += d.Sent
			}
		}
	}
	return f
}

// get returns the text of a page, "" if there is none.
func get(c *http.Client, url string, header http.Header) string {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	r.Header = header
	a, err := c.Do(r)
	if err != nil {
		return ""
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// startConsole starts a console and returns what asks it for a snapshot.
func startConsole(t *testing.T) (ask func() string) {
	t.Helper()
	p := clitest.Start(t, "console")
	p.Prints("#token=")
	url, token, _ := strings.Cut(strings.TrimSpace(p.Stdout.String()), "#token=")
	return func() string {
		return get(http.DefaultClient, url+"api/snapshot", http.Header{console.TokenHeader: {token}})
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(clitest.Timeout); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s without success", what)
		}
	}
}
