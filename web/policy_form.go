package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
)

// maxSectionLimits bounds the limits of one section that a form may carry.
const maxSectionLimits = 64

// Choices of a form that stand for a word of the document elsewhere.
const (
	unlimitedUnit = "unlimited" // a unit: no limit
	shareMode     = "share"     // a fail mode: open, with the fallback share
	noPeriod      = "none"      // a quota's period: no quota
)

// fields are the names of a section's own fields, without its limits.
func (s section) fields() []string {
	switch s.Kind {
	case "general":
		return []string{"description", "trusted-proxies", "ip-header", "ipv6-prefix", "headers", "user-header", "replicas", "inv-count", "inv-unit", "inv-burst"}
	case "plan":
		return []string{"name", "description", "q-amount", "q-counts", "q-period", "q-alignment", "q-zone", "q-over", "q-max", "q-mode"}
	case "route":
		return []string{"name", "description", "match", "identity", "motive", "cost", "c-max", "c-lease", "c-per", "c-mode",
			"mode", "fb-count", "fb-unit", "fb-burst"}
	}
	return nil
}

func limitField(i int, name string) string { return "l" + strconv.Itoa(i) + "-" + name }

func limitFields() []string {
	return []string{"name", "description", "per", "counts", "count", "unit", "burst", "kind", "sync", "expires"}
}

// parseSection reads the fields of a section's form.
func parseSection(r *http.Request, s section) *form.Form {
	names := append([]string{"limits"}, s.fields()...)
	n, _ := strconv.Atoi(r.PostForm.Get("limits"))
	for i := range min(max(n, 0), maxSectionLimits) {
		for _, name := range limitFields() {
			names = append(names, limitField(i, name))
		}
	}
	f := form.Parse(r, names...)
	f.Value["uses"] = strings.Join(r.PostForm["uses[]"], ",")
	return f
}

// dropTyped takes one limit out of what was typed; an index that is not there
// changes nothing.
func dropTyped(f *form.Form, drop int) {
	n, _ := strconv.Atoi(f.Get("limits"))
	if n = min(n, maxSectionLimits); drop < 0 || drop >= n {
		return
	}
	for i := drop; i < n-1; i++ {
		for _, name := range limitFields() {
			f.Value[limitField(i, name)] = f.Value[limitField(i+1, name)]
		}
	}
	f.Value["limits"] = strconv.Itoa(n - 1)
}

// valuesOf fills a section's form from the document.
func valuesOf(d *policy.Document, s section) *form.Form {
	f := form.New(nil)
	switch s.Kind {
	case "general":
		var proxies, headers []string
		for _, p := range d.ClientIP.TrustedProxies {
			proxies = append(proxies, p.String())
		}
		for _, h := range d.Credentials.Headers {
			headers = append(headers, strings.TrimSpace(h.Name+" "+h.Scheme))
		}
		f.Value["description"] = d.Description
		f.Value["trusted-proxies"], f.Value["ip-header"] = strings.Join(proxies, "\n"), d.ClientIP.Header
		f.Value["ipv6-prefix"], f.Value["headers"] = strconv.Itoa(d.ClientIP.IPv6Prefix), strings.Join(headers, "\n")
		putRate(f, "inv-", d.Credentials.Invalid.Rate, d.Credentials.Invalid.Burst)
		f.Value["replicas"] = intIf(d.ReplicasExpected)
		putUser(f, d.User)
	case "plan":
		f.Value["name"], f.Value["description"] = s.Key, d.Plans[s.Key].Description
		putQuota(f, d.Plans[s.Key].Quota)
	case "route":
		putRoute(f, d.Routes[s.index()])
	}
	if limits := s.limitsOf(d); limits != nil {
		f.Value["limits"] = strconv.Itoa(len(*limits))
		for i, l := range *limits {
			f.Value[limitField(i, "name")], f.Value[limitField(i, "description")] = l.Name, l.Description
			f.Value[limitField(i, "per")], f.Value[limitField(i, "counts")] = perText(l.Per), string(l.Counts)
			f.Value[limitField(i, "kind")], f.Value[limitField(i, "sync")] = string(l.Mode), string(l.Sync)
			f.Value[limitField(i, "expires")] = endText(l.ExpiresAt)
			putRate(f, limitField(i, ""), l.Rate, l.Burst)
		}
	}
	return f
}

func putRoute(f *form.Form, r policy.Route) {
	f.Value["name"], f.Value["description"] = r.Name, r.Description
	f.Value["match"], f.Value["identity"], f.Value["motive"] = strings.Join(r.Match, "\n"), string(r.Identity), string(r.Motive)
	f.Value["cost"], f.Value["uses"] = strconv.FormatInt(r.Cost, 10), strings.Join(r.Uses, ",")
	f.Value["cost-text"] = computedCost(r)
	putConcurrency(f, r.Concurrency)
	f.Value["mode"], f.Value["fb-unit"] = string(r.OnStoreFailure.Mode), "minute"
	if fb := r.OnStoreFailure.Fallback; fb != nil && fb.Share {
		f.Value["mode"] = shareMode
	} else if fb != nil {
		rate := fb.Rate
		rate.Unlimited = rate.Unlimited || fb.Unlimited
		putRate(f, "fb-", rate, fb.Burst)
	}
}

// apply puts what was typed into the document. What cannot be read is noted
// beside its field; whether the document makes sense is for validation to say.
func (s section) apply(d *policy.Document, f *form.Form) {
	switch s.Kind {
	case "general":
		applyGeneral(d, f)
	case "global":
		d.Global.Limits = takeLimits(f)
	case "shared":
		d.Shared = takeLimits(f)
	case "plan":
		name := f.Get("name")
		if _, taken := d.Plans[name]; name != s.Key && taken {
			f.Fail("name", "Another plan has this name.")
			return
		}
		if name == "" {
			f.Fail("name", "Is missing.")
			return
		}
		delete(d.Plans, s.Key)
		d.Plans[name] = policy.Plan{Description: f.Get("description"), Limits: takeLimits(f), Quota: takeQuota(f)}
	case "route":
		applyRoute(&d.Routes[s.index()], f)
	}
}

func applyGeneral(d *policy.Document, f *form.Form) {
	d.Description, d.ClientIP.Header = f.Get("description"), f.Get("ip-header")
	d.ClientIP.IPv6Prefix = int(takeInt(f, "ipv6-prefix"))
	d.ClientIP.TrustedProxies, d.Credentials.Headers = nil, nil
	for _, line := range lines(f.Raw("trusted-proxies")) {
		p, err := netip.ParsePrefix(line)
		if a, aerr := netip.ParseAddr(line); aerr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			f.Fail("trusted-proxies", "“"+clip(line)+"” is no address range such as 10.0.0.0/8.")
		}
		d.ClientIP.TrustedProxies = append(d.ClientIP.TrustedProxies, p)
	}
	for _, line := range lines(f.Raw("headers")) {
		name, scheme, _ := strings.Cut(line, " ")
		d.Credentials.Headers = append(d.Credentials.Headers, policy.CredentialHeader{Name: name, Scheme: strings.TrimSpace(scheme)})
	}
	d.Credentials.Invalid.Rate, d.Credentials.Invalid.Burst = takeRate(f, "inv-")
	d.ReplicasExpected = takeIntIf(f, "replicas")
	if d.User == nil || d.User.JWT == nil { // a token is edited as YAML
		d.User = nil
		if header := f.Get("user-header"); header != "" {
			d.User = &policy.User{Header: header}
		}
	}
}

func applyRoute(r *policy.Route, f *form.Form) {
	r.Name, r.Description, r.Match = f.Get("name"), f.Get("description"), lines(f.Raw("match"))
	r.Identity, r.Motive = policy.Identity(f.Get("identity")), policy.Motive(f.Get("motive"))
	if r.GraphQL == nil { // a cost that is computed is edited as YAML
		r.Cost = takeInt(f, "cost")
	}
	r.Uses, r.Limits, r.Concurrency = nil, takeLimits(f), takeConcurrency(f)
	if uses := f.Get("uses"); uses != "" {
		r.Uses = strings.Split(uses, ",")
	}
	if f.Get("mode") == shareMode {
		r.OnStoreFailure = policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Share: true}}
		return
	}
	r.OnStoreFailure = policy.StoreFailure{Mode: policy.FailMode(f.Get("mode"))}
	if r.OnStoreFailure.Mode == policy.FailOpen {
		rate, burst := takeRate(f, "fb-")
		r.OnStoreFailure.Fallback = &policy.Fallback{Unlimited: rate.Unlimited, Rate: rate, Burst: burst}
	}
}

func lines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
