package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
)

// readCertificates reads the certificates of authorities, and returns them in an order that depends on nothing else.
func readCertificates(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates for the image: %w; install ca-certificates, or name a file with -certificates", err)
	}
	var all [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			return nil, fmt.Errorf("%s has a block %s that is not a certificate: %v", file, block.Type, err)
		}
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no certificates", file)
	}
	slices.SortFunc(all, bytes.Compare)
	return bytes.Join(slices.CompactFunc(all, bytes.Equal), nil), nil
}
