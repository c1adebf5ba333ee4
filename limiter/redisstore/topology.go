package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// How a Cluster's client follows its nodes. go-redis looks at the nodes anew
// only after MOVED, ASK and READONLY and, by default, every 60 s: a node that
// died would be an outage of that long.
const (
	stateReload  = time.Second
	maxRedirects = 3
)

// newClient makes a client of the kind.
func newClient(o *redis.UniversalOptions, kind Kind) redis.UniversalClient {
	switch kind {
	case Sentinel:
		return redis.NewFailoverClient(o.Failover())
	case Cluster:
		o.MaxRedirects = maxRedirects
		c := o.Cluster()
		c.ClusterStateReloadInterval = stateReload
		// Routing policies would ask the server for COMMAND, and all keys of a call
		// lie in one slot.
		c.DisableRoutingPolicies = true
		return redis.NewClusterClient(c)
	default:
		return redis.NewClient(o.Simple())
	}
}

// Clustered tells whether the Store lies on a Cluster: then a draw may take two
// calls, and limits on everything together belong into leases
// (limiter.Config.LeaseGlobal).
func (s *Store) Clustered() bool {
	_, is := s.client.(*redis.ClusterClient)
	return is
}

// Close ends the client of a Store that Open made; calls then fail.
func (s *Store) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}
