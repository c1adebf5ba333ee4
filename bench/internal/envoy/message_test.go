package envoy

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/policy"
)

func TestMessage_IsWhatTheProtocolSays(t *testing.T) {
	t.Parallel()
	var r ratelimitv3.RateLimitRequest
	if err := proto.Unmarshal(Message("d", []Entry{{"a", "1"}, {"b", "2"}}, []Entry{{"c", ""}}), &r); err != nil {
		t.Fatal(err)
	}
	if r.GetDomain() != "d" || len(r.GetDescriptors()) != 2 {
		t.Fatalf("read back as %v", &r)
	}
	entries := r.GetDescriptors()[0].GetEntries()
	if len(entries) != 2 || entries[1].GetKey() != "b" || entries[1].GetValue() != "2" || r.GetDescriptors()[1].GetEntries()[0].GetKey() != "c" {
		t.Errorf("read back as %v", &r)
	}
}

func TestAdmits_ReadsTheOverallCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[ratelimitv3.RateLimitResponse_Code]bool{
		ratelimitv3.RateLimitResponse_OK: true, ratelimitv3.RateLimitResponse_OVER_LIMIT: false, ratelimitv3.RateLimitResponse_UNKNOWN: false,
	} {
		b, err := proto.Marshal(&ratelimitv3.RateLimitResponse{OverallCode: code, Statuses: []*ratelimitv3.RateLimitResponse_DescriptorStatus{{Code: code}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := admits(append([]byte{0, 0, 0, 0, byte(len(b))}, b...)); got != want {
			t.Errorf("%v: %t", code, got)
		}
	}
	if admits(nil) || admits([]byte{0, 0, 0, 0, 0}) {
		t.Error("an empty answer admits")
	}
}

func TestKinds_BothSidesHaveALimitForEachDescriptor(t *testing.T) {
	t.Parallel()
	var config struct{ Descriptors []struct{ Key string } }
	if err := yaml.Unmarshal([]byte(Config), &config); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, d := range config.Descriptors {
		known[d.Key] = true
	}
	for kind, descriptors := range map[Kind]int{One: 1, Four: 4, Refused: 1} {
		ours, theirs := Ours(kind), Theirs(kind)
		if len(ours) != Subjects || len(theirs) != Subjects {
			t.Fatalf("%s: %d and %d messages", kind, len(ours), len(theirs))
		}
		var r ratelimitv3.RateLimitRequest
		if err := proto.Unmarshal(theirs[Subjects-1], &r); err != nil {
			t.Fatal(err)
		}
		if len(r.GetDescriptors()) != descriptors {
			t.Errorf("%s: %d descriptors", kind, len(r.GetDescriptors()))
		}
		for _, d := range r.GetDescriptors() {
			if key := d.GetEntries()[0].GetKey(); !known[key] {
				t.Errorf("%s: no limit for %q", kind, key)
			}
		}
		if err := proto.Unmarshal(ours[0], &r); err != nil || r.GetDomain() != "headgate" {
			t.Errorf("%s: ours is %v, %v", kind, &r, err)
		}
	}
}

func TestSource_IsAPolicyWithoutProblems(t *testing.T) {
	t.Parallel()
	doc, report := policy.Parse([]byte(source))
	if doc == nil {
		t.Fatalf("%v", report.Problems)
	}
	limits := map[string]int{}
	for _, r := range doc.Routes {
		limits[r.Name] = len(doc.Plans["bench"].Limits) + len(r.Limits) + len(r.Uses)
	}
	for name, want := range map[string]int{"one": 1, "four": 4, "refused": 2} {
		if limits[name] != want {
			t.Errorf("route %s draws from %d limits, want %d", name, limits[name], want)
		}
	}
}
