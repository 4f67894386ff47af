package fault

import (
	"encoding/xml"
	"fmt"
)

// The elements of JUnit XML that test reports of CI systems read: a suite with a case for each scenario.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Name       string     `xml:"name,attr"`
		Class      string     `xml:"classname,attr"`
		Time       string     `xml:"time,attr"`
		Properties []property `xml:"properties>property"`
		Failure    *broken    `xml:"failure"`
		Output     string     `xml:"system-out"`
	}
	property struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	broken struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
	}
)

// outputKept is how much of a program's output, from its end, a report has.
const outputKept = 64 << 10

// junit returns the runs as JUnit XML.
func junit(program string, runs []*outcome, strict bool) ([]byte, error) {
	s, total := suite{Name: program, Tests: len(runs)}, 0.0
	for _, o := range runs {
		total += o.Seconds
		c := testCase{Name: o.Scenario, Class: program, Time: fmt.Sprintf("%.3f", o.Seconds), Output: o.what() + "\n" + o.output[max(len(o.output)-outputKept, 0):]}
		c.Properties = []property{{"verdict", string(o.Verdict)}, {"slower", fmt.Sprintf("%.2f", o.Slower)}, {"hits", o.hits()}}
		if o.Status != "" {
			c.Properties = append(c.Properties, property{"status", o.Status})
		}
		if o.bad(strict) {
			s.Failures++
			c.Failure = &broken{Message: o.what() + ": " + o.detail(), Type: string(o.Verdict)}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = fmt.Sprintf("%.3f", total)
	out, err := xml.MarshalIndent(suites{Suites: []suite{s}}, "", "  ")
	return append([]byte(xml.Header), append(out, '\n')...), err
}
