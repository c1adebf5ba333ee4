package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/headgate/headgate/policy"
)

var (
	errNoCredential        = errors.New("no credential in the request")
	errAmbiguousCredential = errors.New("different credentials in one request")
)

// credentialOf finds the API key in the headers that the policy names. The same
// key twice is one key; two different ones are an error, because whichever we
// took, the upstream could take the other.
func credentialOf(header http.Header, headers []policy.CredentialHeader) (string, error) {
	found := ""
	for _, h := range headers {
		for _, line := range header.Values(h.Name) {
			key, ok := keyIn(line, h.Scheme)
			if !ok {
				continue
			}
			if found != "" && found != key {
				return "", errAmbiguousCredential
			}
			found = key
		}
	}
	if found == "" {
		return "", errNoCredential
	}
	return found, nil
}

// keyIn takes the key out of one header line. A line with another scheme is
// somebody else's credential and none of ours.
func keyIn(line, scheme string) (string, bool) {
	line = strings.Trim(line, " \t")
	if scheme == "" {
		return line, line != ""
	}
	if len(line) <= len(scheme) || !strings.EqualFold(line[:len(scheme)], scheme) {
		return "", false
	}
	rest := line[len(scheme):]
	if rest[0] != ' ' && rest[0] != '\t' {
		return "", false
	}
	rest = strings.Trim(rest, " \t")
	return rest, rest != ""
}

// challenge is the WWW-Authenticate value of a 401. It depends on the policy
// only, so it is the same for every reason.
func challenge(headers []policy.CredentialHeader) string {
	for _, h := range headers {
		if h.Scheme != "" {
			return h.Scheme + ` realm="headgate"`
		}
	}
	return `ApiKey realm="headgate"`
}
