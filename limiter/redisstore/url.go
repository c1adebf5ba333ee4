package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Kind is how the Redis behind a URL is set up.
type Kind string

// Kinds.
const (
	Standalone Kind = "standalone"
	Sentinel   Kind = "sentinel"
	Cluster    Kind = "cluster"
)

// errURL is all that is told of a URL that cannot be read: a URL may hold a
// password.
var errURL = errors.New("not a Redis URL: want redis://user:password@host:port/db, rediss://…, unix://…, " +
	"redis-sentinel://user:password@host:port,host:port/master?db=0 or redis-cluster://user:password@host:port,host:port")

// ParseURL reads
//
//	redis://[user:password@]host[:port][/db]            rediss:// with TLS
//	unix://[user:password@]/path[?db=0]
//	redis-sentinel://[user:password@]host[:port][,…]/master[?db=0]
//	redis-cluster://[user:password@]host[:port][,…]
//
// and rediss-sentinel, rediss-cluster. User and password are those of the data
// nodes; sentinels' own are the parameters sentinel_username and
// sentinel_password. The other parameters are go-redis' (pool_size, dial_timeout,
// protocol, skip_verify …). Time limits and pool sizes are left at go-redis'
// defaults, which suit no decision: see Open. redis.NewUniversalClient makes a
// client of the right kind from the result. The error never quotes the URL.
func ParseURL(text string) (*redis.UniversalOptions, Kind, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, "", errURL
	}
	base, kind := scheme, Standalone
	if before, after, cut := strings.Cut(scheme, "-"); cut {
		base, kind = before, Kind(after)
	}
	if kind != Standalone && kind != Sentinel && kind != Cluster || kind != Standalone && base == "unix" {
		return nil, "", errURL
	}
	if kind == Standalone {
		simple, err := redis.ParseURL(text)
		if err != nil { // it would quote the URL
			return nil, "", errURL
		}
		return universal(simple), kind, nil
	}
	opts, err := parseSeveral(base, rest, kind)
	return opts, kind, err
}

// parseSeveral reads what follows :// in a URL of several hosts. Each host is
// put into a URL of its own, which go-redis reads.
func parseSeveral(base, rest string, kind Kind) (*redis.UniversalOptions, error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	path, query, _ := strings.Cut(tail, "?")
	login := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		login, authority = authority[:at+1], authority[at+1:]
	}
	query, own := takeParameters(query, "sentinel_username", "sentinel_password")
	var opts *redis.UniversalOptions
	var addrs []string
	for host := range strings.SplitSeq(authority, ",") {
		simple, err := redis.ParseURL(base + "://" + login + host + "/?" + query)
		if err != nil || host == "" {
			return nil, errURL
		}
		opts, addrs = universal(simple), append(addrs, simple.Addr)
	}
	opts.Addrs, opts.SentinelUsername, opts.SentinelPassword = addrs, own[0], own[1]
	if opts.TLSConfig != nil {
		opts.TLSConfig.ServerName = "" // that of whichever host is dialled
	}
	name := strings.Trim(path, "/")
	switch {
	case kind == Sentinel && (name == "" || strings.Contains(name, "/")):
		return nil, fmt.Errorf("%w: the path of a Sentinel URL names the master, as in /mymaster", errURL)
	case kind == Sentinel:
		opts.MasterName = name
	case name != "" || opts.DB != 0:
		return nil, fmt.Errorf("%w: a Cluster has no databases", errURL)
	default:
		opts.IsClusterMode = true
	}
	return opts, nil
}

// universal keeps of a single server's options what a URL can say.
func universal(o *redis.Options) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Protocol: o.Protocol, ClientName: o.ClientName,
		Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MaxConcurrentDials: o.MaxConcurrentDials,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns,
		PipelinePoolSize: o.PipelinePoolSize, PipelineReadBufferSize: o.PipelineReadBufferSize,
		PipelineWriteBufferSize: o.PipelineWriteBufferSize, ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
	}
}

// takeParameters takes the named parameters out of a query. Their values are
// percent-decoded; what cannot be decoded is taken as it stands.
func takeParameters(query string, names ...string) (rest string, values []string) {
	values = make([]string, len(names))
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		at := slices.Index(names, key)
		if at < 0 {
			kept = append(kept, pair)
			continue
		}
		values[at] = value
		if decoded, err := url.QueryUnescape(value); err == nil {
			values[at] = decoded
		}
	}
	return strings.Join(kept, "&"), values
}
