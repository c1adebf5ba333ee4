package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy/feed"
)

// redisURL reads the flags that name a Redis; nil when one of them is wrong. The
// URL is read anew for each use, and what is wrong with it is told without it:
// it may hold a password.
func redisURL(p *config.Problems, value, file string) (address string, o *redis.UniversalOptions) {
	address = config.Secret(p, "--redis-url", value, file)
	if address == "" {
		if file == "" {
			p.Require("--redis-url", "")
		}
		return "", nil
	}
	o, _, err := redisstore.ParseURL(address)
	if err != nil {
		p.Add("--redis-url", "is %v", err)
		return "", nil
	}
	return address, o
}

// wireClient makes the client for policy, directory and reports.
func wireClient(o *redis.UniversalOptions, file string) redis.UniversalClient {
	o.CredentialsProviderContext = fileCredentials(o.Username, o.Password, file)
	return feed.NewClient(*o)
}

// credentials gives a connection its user and password.
type credentials = func(context.Context) (user, password string, err error)

// fileCredentials lets each new connection take user and password from the file
// that the Redis URL came from, so that a password can be changed while the
// process runs: change it in Redis and in the file. A file that cannot be read
// or is no Redis URL changes nothing. The address does not follow. It is nil
// without a file.
func fileCredentials(user, password, file string) credentials {
	if file == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		var p config.Problems
		now, _, err := redisstore.ParseURL(config.Secret(&p, "--redis-url", "", file))
		if err == nil && p.Err() == nil {
			return now.Username, now.Password, nil
		}
		return user, password, nil
	}
}
