package bench

import (
	"fmt"
	"html"
	"io"
	"strings"
)

const pageHead = `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>softrdma bench</title><style>
body{font-family:sans-serif;max-width:60em;margin:2em auto}table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:left;border-bottom:1px solid #ddd}
.below{color:#c0392b}.gate,.stretch{color:#27864a}</style></head><body><h1>softrdma compared with other implementations</h1>
<p>Ratios are computed within a round, and the median of the rounds counts. Absolute figures hold for one machine.</p>`

// WriteHTML writes tables and plots as one self-contained page.
func WriteHTML(w io.Writer, o *Origin, tables []*Table, plots []Plot) error {
	var b strings.Builder
	for _, t := range tables {
		writeFigures(&b, fmt.Sprintf("%s, %d rounds", t.Path, t.Rounds), t.Rows)
	}
	return writePage(w, o, b.String(), plots)
}

// WriteHTML writes the table and its plots as one self-contained page.
func (t *LossTable) WriteHTML(w io.Writer, o *Origin) error {
	var b strings.Builder
	writeFigures(&b, fmt.Sprintf("Goodput over a relay, %d rounds", t.Rounds), t.Figures)
	fmt.Fprintf(&b, "<p>%s</p><table><tr><th>round trip, loss, reordering</th>", html.EscapeString(t.Account.String()))
	for _, s := range t.Senders {
		fmt.Fprintf(&b, "<th>%s, Mbit/s</th>", html.EscapeString(s))
	}
	b.WriteString("</tr>")
	for i := range t.Rows {
		fmt.Fprintf(&b, "<tr><td>%v</td>", t.Rows[i].Impairment)
		for _, g := range t.Rows[i].Goodput {
			fmt.Fprintf(&b, "<td>%.1f</td>", g/1e6)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table><table><tr><th>through an ECN-marking bottleneck</th><th>Mbit/s</th><th>fairness</th><th>longest queue, KiB</th><th>dropped</th><th>marked</th></tr>")
	for i := range t.Shares {
		s := &t.Shares[i]
		if s.Missing != "" {
			fmt.Fprintf(&b, `<tr><td>%s</td><td colspan="5">missing: %s</td></tr>`, html.EscapeString(s.Sender), html.EscapeString(s.Missing))
			continue
		}
		fmt.Fprintf(&b, "<tr><td>%s, %d flows</td><td>%.0f</td><td>%.3f</td><td>%d</td><td>%d</td><td>%d</td></tr>",
			html.EscapeString(s.Sender), s.Flows, s.Bits/1e6, s.Fairness, s.Peak>>10, s.Dropped, s.Marked)
	}
	b.WriteString("</table>")
	for _, l := range t.Missing {
		fmt.Fprintf(&b, "<p>missing: %s</p>", html.EscapeString(l))
	}
	return writePage(w, o, b.String(), t.Plots())
}

func writeFigures(b *strings.Builder, title string, rows []Row) {
	fmt.Fprintf(b, `<h2>%s</h2><table><tr><th>figure</th><th>softrdma</th><th>peer</th><th>ratio</th><th>lowest–highest</th><th></th><th>gate</th><th></th></tr>`,
		html.EscapeString(title))
	for i := range rows {
		b.WriteString(rows[i].html())
	}
	b.WriteString("</table>")
}

func writePage(w io.Writer, o *Origin, body string, plots []Plot) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s<p>%s</p>%s", pageHead, html.EscapeString(o.String()), body)
	for i := range plots {
		fmt.Fprintf(&b, "<div>%s</div>", plots[i].SVG())
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Row) html() string {
	if r.Missing != "" {
		return fmt.Sprintf(`<tr><td>%s</td><td colspan="7">missing: %s</td></tr>`, html.EscapeString(r.Name), html.EscapeString(r.Missing))
	}
	of, against, ratio, span := r.Cells()
	return fmt.Sprintf(`<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td class="%s">%s</td></tr>`,
		html.EscapeString(r.Name), of, against, ratio, span, r.Words(), r.Limit(r.Gate), r.Verdict(), r.Verdict())
}
