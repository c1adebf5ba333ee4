package feed

import (
	"strconv"

	"github.com/headgate/headgate/policy"
)

// keys builds every key of the wire. Braces are Redis Cluster hash tags: what
// one script touches lies in one slot, the records of the directory excepted.
type keys struct{ ns string }

func (k keys) policyHead() string       { return k.ns + ":{policy}:head" }
func (k keys) policyBodyPrefix() string { return k.ns + ":{policy}:body:" }
func (k keys) policyStamp() string      { return k.ns + ":{policy}:stamp" }
func (k keys) policyCanary() string     { return k.ns + ":{policy}:canary" }
func (k keys) bell() string             { return k.ns + ":{policy}:bell" }
func (k keys) directoryHead() string    { return k.ns + ":{directory}:head" }
func (k keys) directoryChanges() string { return k.ns + ":{directory}:changes" }
func (k keys) replica(id string) string { return k.ns + ":replica:" + id }
func (k keys) replicaIndex() string     { return k.ns + ":replica:index" }
func (k keys) limiterState() string     { return k.ns + ":l:*" } // a pattern; a namespace has no character that means more
func (k keys) usageLive() string        { return k.ns + ":usage:live" }

func (k keys) policyBody(version int64) string {
	return k.policyBodyPrefix() + strconv.FormatInt(version, 10)
}

func (k keys) record(kind policy.RecordKind, id string) string {
	return k.ns + ":" + string(kind) + ":" + id
}
