package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/config"
)

// followCredentials lets each new connection take user and password from the file
// that the Redis URL came from, so that a password can be changed while the
// process runs: change it in Redis and in the file. A file that cannot be read
// or is no Redis URL changes nothing. The address does not follow.
func followCredentials(o *redis.Options, file string) {
	if file == "" {
		return
	}
	user, password := o.Username, o.Password
	o.CredentialsProviderContext = func(context.Context) (string, string, error) {
		var p config.Problems
		now, err := redis.ParseURL(config.Secret(&p, "--redis-url", "", file))
		if err == nil && p.Err() == nil {
			return now.Username, now.Password, nil
		}
		return user, password, nil
	}
}
