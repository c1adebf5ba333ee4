package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

// shared starts servers once for all parts of a test: the suite names its
// subjects apart, or flushes.
func TestStore_ConformsOnACluster(t *testing.T) {
	t.Parallel()
	conforms(t, func(t testing.TB) string { return testkit.Cluster(t).URL() })
}

func TestStore_ConformsOnSentinel(t *testing.T) {
	t.Parallel()
	conforms(t, func(t testing.TB) string { return testkit.Sentinel(t).URL() })
}
