package relay

import (
	"bytes"
	"fmt"
	"os"
)

// MinSecret is the least length of a secret in bytes. An observer of packets can test guesses at it.
const MinSecret = 16

// MaxSecret is the greatest length of a secret in bytes. More adds no security, and a server passes the
// secret on to its programs in a message of limited length.
const MaxSecret = 256

// ReadSecret reads the secret of an attachment or of a trunk from a file. It refuses others than of
// MinSecret to MaxSecret bytes; white space around a secret does not count.
func ReadSecret(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(content)
	if n := len(secret); n < MinSecret || n > MaxSecret {
		return nil, fmt.Errorf("expected a secret of %d to %d bytes in %s (for example from openssl rand -base64 32), found %d", MinSecret, MaxSecret, file, n)
	}
	return secret, nil
}
