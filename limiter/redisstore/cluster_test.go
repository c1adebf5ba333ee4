package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

func TestStore_ConformsOnACluster(t *testing.T) {
	t.Parallel()
	conforms(t, testkit.Cluster(t).URL())
}

func TestStore_ConformsOnSentinel(t *testing.T) {
	t.Parallel()
	conforms(t, testkit.Sentinel(t).URL())
}
