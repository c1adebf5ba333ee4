package policy

import "slices"

func (v *validator) user() {
	u := v.doc.User
	if u == nil {
		return
	}
	switch {
	case u.Header == "" && u.JWT == nil:
		v.problems.addf("user", "is empty: write {header: X-User-Id} or {jwt: {jwks_file: …}}")
	case u.Header != "" && u.JWT != nil:
		v.problems.addf("user", "has a header and a jwt: give one of them")
	case u.JWT != nil:
		v.userJWT(u.JWT)
	default:
		v.userHeader(u.Header)
	}
}

func (v *validator) userHeader(name string) {
	at := "user.header"
	switch why := badHeader(name); {
	case why != "":
		v.problems.addf(at, "%s", why)
	case slices.ContainsFunc(v.doc.Credentials.Headers, func(h CredentialHeader) bool { return sameHeader(h.Name, name) }):
		v.problems.addf(at, "%s already carries the API key: credentials.headers names it", name)
	case v.tellsAddress(name):
		v.problems.addf(at, "%s tells the client address, not the user", name)
	case len(v.doc.ClientIP.TrustedProxies) == 0:
		v.warnings.addf(at, "%s is never believed: no proxy is trusted (client_ip.trusted_proxies)", name)
	}
}

func (v *validator) userJWT(j *UserJWT) {
	at := "user.jwt"
	if j.JWKSFile == "" {
		v.problems.addf(at+".jwks_file", "is missing: the file of public keys that sign the tokens")
	}
	v.text(at+".jwks_file", j.JWKSFile)
	v.text(at+".claim", j.Claim)
	v.text(at+".issuer", j.Issuer)
	v.text(at+".audience", j.Audience)
	if j.Audience == "" {
		v.warnings.addf(at+".audience", "is not given: a token that the same keys have signed for another service is taken too")
	}
	for _, h := range v.doc.Credentials.Headers {
		if sameHeader(h.Name, "Authorization") && h.Scheme == "Bearer" {
			v.warnings.addf(at, "stands in Authorization: Bearer, where credentials.headers looks for an API key too")
		}
	}
}

func (v *validator) replicas() {
	if n := v.doc.ReplicasExpected; n < 0 || n > MaxReplicasExpected {
		v.problems.addf("replicas_expected", "%d must be 1 to %d", n, MaxReplicasExpected)
	}
}
