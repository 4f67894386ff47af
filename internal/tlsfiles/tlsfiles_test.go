package tlsfiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnvironmentNamesTheFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, short := file("good", " 0123456789abcdef \n"), file("short", "0123456789abcde \n")
	for name, c := range map[string]struct {
		set    map[string]string
		config bool
		choice bool
		says   string
	}{
		"nothing":                      {},
		"secret":                       {set: map[string]string{"SOFTRDMA_PSK_FILE": good}, config: true},
		"short secret":                 {set: map[string]string{"SOFTRDMA_PSK_FILE": short}, says: "SOFTRDMA_PSK_FILE: shared secret"},
		"no such file":                 {set: map[string]string{"SOFTRDMA_PSK_FILE": filepath.Join(dir, "none")}, says: "SOFTRDMA_PSK_FILE: open"},
		"empty":                        {set: map[string]string{"SOFTRDMA_TLS_CA": ""}, says: "SOFTRDMA_TLS_CA: expected the name of a file"},
		"secret and certificate":       {set: map[string]string{"SOFTRDMA_PSK_FILE": good, "SOFTRDMA_TLS_CERT": good}, choice: true},
		"certificate without the rest": {set: map[string]string{"SOFTRDMA_TLS_CERT": good}, choice: true, says: "SOFTRDMA_TLS_KEY"},
		"no certificates":              {set: map[string]string{"SOFTRDMA_TLS_CERT": good, "SOFTRDMA_TLS_KEY": good, "SOFTRDMA_TLS_CA": good}, says: "SOFTRDMA_TLS_CERT"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.set {
				t.Setenv(k, v)
			}
			cfg, err := FromEnvironment()
			fails := c.choice || c.says != ""
			if (cfg != nil) != c.config || (err != nil) != fails || errors.Is(err, ErrChoice) != c.choice {
				t.Fatalf("found %v, %v", cfg != nil, err)
			}
			if fails && !strings.Contains(err.Error(), c.says) {
				t.Errorf("expected %q, found %v", c.says, err)
			}
		})
	}
}
