// Tls encrypts a connection of package rdmanet: crypto/tls runs on it unchanged. The
// certificate is generated at run time and trusted because both ends are in this
// process.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"time"

	"softrdma/rdmanet"
)

func main() {
	cert, pool := certificate(net.IPv4(127, 0, 0, 1))
	l := tls.NewListener(must(rdmanet.Listen("rdma", "127.0.0.1:0")), &tls.Config{Certificates: []tls.Certificate{cert}})
	defer l.Close()
	go func() {
		c := must(l.Accept())
		defer c.Close()
		must(io.Copy(c, c)) // echo
	}()

	raw := must(rdmanet.Dial("rdma", l.Addr().String()))
	c := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	defer c.Close()
	must(io.WriteString(c, "a secret"))
	if err := c.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	answer := string(must(io.ReadAll(c)))
	if answer != "a secret" {
		log.Fatalf("found %q", answer)
	}
	s := c.ConnectionState()
	fmt.Printf("%q came back, %s with %s\n", answer, tls.VersionName(s.Version), tls.CipherSuiteName(s.CipherSuite))
}

// certificate returns a self-signed certificate for an address, and a pool that trusts
// it.
func certificate(ip net.IP) (tls.Certificate, *x509.CertPool) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{ip}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, t, t, key.Public(), key))
	pool := x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der)))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
