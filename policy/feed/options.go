package feed

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// mostConns bounds what one process opens for the wire to one server,
	// subscriptions apart.
	mostConns = 48
	// poolSize is no size: go-redis stops dialling but once a second after as
	// many failed dials, which would add a second to every recovery.
	poolSize = 1 << 16
	// stateReload is how old a client's picture of a Cluster may be. A server that
	// died tells nobody that it moved: by default go-redis finds out after a minute.
	stateReload  = 300 * time.Millisecond
	maxRedirects = 3
)

// NewClient makes a client as this package wants it, of the kind that the
// options name: a Cluster, a primary that Sentinels watch, or one server.
func NewClient(o redis.UniversalOptions) redis.UniversalClient {
	tune(&o)
	switch {
	case o.IsClusterMode:
		c := o.Cluster()
		c.MaxRedirects = maxRedirects
		c.ClusterStateReloadInterval = stateReload
		c.DisableRoutingPolicies = true // they would ask the server for COMMAND
		return redis.NewClusterClient(c)
	case o.MasterName != "":
		return redis.NewFailoverClient(o.Failover())
	}
	return redis.NewClient(o.Simple())
}

// tune sets what this package counts on: deadlines that hold, no hidden
// retries, time enough to read a large policy, and a client that is back at once
// when Redis is.
func tune(o *redis.UniversalOptions) {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = 500 * time.Millisecond
	o.ReadTimeout = 3 * time.Second
	o.WriteTimeout = 3 * time.Second
	o.PoolSize = poolSize
	o.MaxActiveConns = mostConns
	o.MinIdleConns = 1
	// Neither is needed, and a gateway's user may send neither.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// Options reads the URL of one server and tunes the options as NewClient does.
func Options(address string) (*redis.Options, error) {
	o, err := redis.ParseURL(address)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err // without the URL, which has the password in it
	}
	if err != nil {
		return nil, fmt.Errorf("read Redis URL: %w", err)
	}
	u := &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Protocol: o.Protocol, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
	}
	tune(u)
	return u.Simple(), nil
}
