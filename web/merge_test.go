package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web"
)

func doc(t *testing.T, replace ...string) *policy.Document {
	t.Helper()
	d, report := policy.Parse([]byte(strings.NewReplacer(replace...).Replace(document)))
	if d == nil {
		t.Fatal(report)
	}
	return d
}

func TestMerge_PartsThatOneSideChangedComeFromThatSide(t *testing.T) {
	t.Parallel()
	base := doc(t)
	mine := doc(t, "rate: 60/minute, burst: 60}]", "rate: 31/minute, burst: 31}]", "mode: closed", "mode: open, fallback: {rate: 5/minute, burst: 5}")
	live := doc(t, "6000/minute", "777/minute", "300/minute, burst: 60", "200/minute, burst: 60")
	merged, clashes := web.MergeDocuments(base, mine, live)
	if len(clashes) != 0 {
		t.Errorf("clashes = %v", clashes)
	}
	if merged.Plans["free"].Limits[0].Rate.Tokens != 31 || merged.Plans["pro"].Limits[0].Rate.Tokens != 777 || merged.Shared[0].Rate.Tokens != 200 ||
		merged.Routes[1].OnStoreFailure.Mode != policy.FailOpen {
		t.Errorf("merged:\n%s", merged.YAML())
	}
	if r := policy.Validate(merged); !r.OK() {
		t.Error(r)
	}
}

func TestMerge_PartsThatBothChangedAreMineAndNamed(t *testing.T) {
	t.Parallel()
	base := doc(t)
	mine, live := doc(t, "rate: 60/minute", "rate: 31/minute"), doc(t, "rate: 60/minute", "rate: 45/minute")
	merged, clashes := web.MergeDocuments(base, mine, live)
	if len(clashes) != 1 || clashes[0] != "plans.free" || merged.Plans["free"].Limits[0].Rate.Tokens != 31 {
		t.Errorf("%v\n%s", clashes, merged.YAML())
	}
	if _, clashes = web.MergeDocuments(base, mine, mine); len(clashes) != 0 {
		t.Errorf("the same change on both sides clashes: %v", clashes)
	}
}

func TestMerge_AddedAndRemovedPlansAndRoutes(t *testing.T) {
	t.Parallel()
	base := doc(t)
	mine, live := doc(t), doc(t)
	delete(mine.Plans, "pro")
	mine.Routes = append(mine.Routes, policy.Route{Name: "mine"})
	live.Routes = append(live.Routes[1:], policy.Route{Name: "theirs"})
	live.Plans["scale"] = policy.Plan{}
	merged, clashes := web.MergeDocuments(base, mine, live)
	var names []string
	for _, r := range merged.Routes {
		names = append(names, r.Name)
	}
	_, pro := merged.Plans["pro"]
	_, scale := merged.Plans["scale"]
	if pro || !scale || strings.Join(names, " ") != "everything theirs mine" || len(clashes) != 0 {
		t.Errorf("plans %v, routes %v, clashes %v", merged.Plans, names, clashes)
	}
}

func TestMerge_NothingChangesWithoutChanges(t *testing.T) {
	t.Parallel()
	live := doc(t, "6000/minute", "777/minute")
	merged, clashes := web.MergeDocuments(doc(t), doc(t), live)
	if string(merged.Canonical()) != string(live.Canonical()) || len(clashes) != 0 {
		t.Errorf("%v\n%s", clashes, merged.YAML())
	}
	if merged, _ := web.MergeDocuments(nil, live, nil); string(merged.Canonical()) != string(live.Canonical()) {
		t.Error("without a base and a live version the draft is not kept")
	}
}

func FuzzSection(f *testing.F) {
	f.Add("plan", "free", "limits=1&name=free&l0-name=a&l0-per=tenant&l0-counts=cost&l0-count=1&l0-unit=minute&l0-burst=", 0)
	f.Add("route", "1", "limits=0&name=x&match=%2F&cost=1&mode=open&fb-count=5&fb-unit=1h&fb-burst=5&uses[]=a&uses[]=b", -1)
	f.Add("general", "", "trusted-proxies=10.0.0.0%2F8%0A::1&headers=A+b%0AC&ipv6-prefix=64&inv-unit=unlimited", 3)
	f.Add("global", "", "limits=9999999999", 1<<40)
	f.Add("route", "99", "", 0)
	f.Fuzz(func(t *testing.T, kind, key, body string, drop int) {
		d, report := policy.Parse([]byte(document))
		if d == nil {
			t.Fatal(report)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.ParseForm() != nil {
			return
		}
		if web.ApplySection(d, r, kind, key, drop) {
			if again, _ := policy.ParseLoose(d.YAML()); again != nil && string(again.Canonical()) != string(d.Canonical()) && policy.Validate(d).OK() {
				t.Errorf("a valid document is not read back as it was written:\n%s", d.YAML())
			}
		}
	})
}
