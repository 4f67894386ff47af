package exec

import (
	"github.com/spf13/pflag"
)

// sanitizeExit is the exit code after findings, if --sanitize-exit names no other.
const sanitizeExit = 66

// sanitizeOptions are the flags of the sanitizer.
type sanitizeOptions struct {
	rules, suppressions, json string
	exit                      int
}

// addFlags adds the flags that exec and env share.
func (o *sanitizeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.rules, "sanitize", "", "check how the program uses the device: comma-separated `RULES`, all or default; -RULE leaves one out")
	f.Lookup("sanitize").NoOptDefVal = "default"
	f.StringVar(&o.suppressions, "suppressions", "", "`FILE` of findings of --sanitize to leave out, as lines RULE:PATTERN")
	f.StringVar(&o.json, "sanitize-json", "", "append the findings of --sanitize to `FILE` as lines of JSON")
}
