package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pair names two PEM files. For the service account key, cert is the public key.
type pair struct{ cert, key string }

// pki has the files of one control plane. Every certificate is signed by ca.
type pki struct {
	ca, serving, admin, controllers, serviceAccount pair
}

func loadOrCreatePKI(dir string) (*pki, error) {
	file := func(name string) pair {
		return pair{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
	}
	p := &pki{
		ca:             file("ca"),
		serving:        file("serving"),
		admin:          file("admin"),
		controllers:    file("controllers"),
		serviceAccount: file("service-account"),
	}
	// The service account key is written last: if it exists, all files do.
	switch _, err := os.Stat(p.serviceAccount.cert); {
	case err == nil:
		return p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return p, errors.Join(os.MkdirAll(dir, 0o700), p.create())
}

func (p *pki) create() error {
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "controlplane-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := issue(p.ca, ca, nil, nil)
	if err != nil {
		return err
	}
	leaves := []struct {
		files pair
		cert  *x509.Certificate
	}{
		{p.serving, &x509.Certificate{
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}},
		{p.admin, clientCert("admin")},
		{p.controllers, clientCert("system:kube-controller-manager")},
	}
	for _, leaf := range leaves {
		if _, err := issue(leaf.files, leaf.cert, ca, caKey); err != nil {
			return err
		}
	}

	key, err := writeKey(p.serviceAccount.key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(p.serviceAccount.cert, "PUBLIC KEY", der)
}

// clientCert returns a certificate for a user outside the limits of RBAC.
func clientCert(user string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{"system:masters"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// issue writes a new key and its certificate, signed by parent or, when that is nil, by itself.
func issue(files pair, cert, parent *x509.Certificate, signer crypto.Signer) (crypto.Signer, error) {
	key, err := writeKey(files.key)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		parent, signer = cert, key
	}
	cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	return key, writePEM(files.cert, "CERTIFICATE", der)
}

func writeKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// restConfig returns a config that authenticates as the client with these files.
func (p *pki) restConfig(address string, client pair) *rest.Config {
	return &rest.Config{
		Host:            address,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.ca.cert, CertFile: client.cert, KeyFile: client.key},
	}
}

// writeKubeconfig writes the admin's kubeconfig, which refers to no other file.
func (p *pki) writeKubeconfig(file, address string) error {
	const name = "controlplane"
	var err error
	read := func(path string) []byte {
		data, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		return data
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: read(p.ca.cert)}
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: read(p.admin.cert),
		ClientKeyData:         read(p.admin.key),
	}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "admin"}
	cfg.CurrentContext = name
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return clientcmd.WriteToFile(*cfg, file)
}
