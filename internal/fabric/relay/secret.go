package relay

import (
	"bytes"
	"fmt"
	"os"
)

// MinSecret is the least length of a secret in bytes. An observer of packets can test guesses at it.
const MinSecret = 16

// ReadSecret reads the secret of an attachment or of a trunk from a file. It refuses short ones;
// white space around a secret does not count.
func ReadSecret(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(content)
	if n := len(secret); n < MinSecret {
		return nil, fmt.Errorf("expected a secret of at least %d bytes in %s (for example from openssl rand -base64 32), found %d", MinSecret, file, n)
	}
	return secret, nil
}
