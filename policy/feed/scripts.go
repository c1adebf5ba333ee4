package feed

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed place.lua
	placeSource string
	//go:embed roster.lua
	rosterSource string
	//go:embed publish.lua
	publishSource string
	//go:embed canary.lua
	canarySource string
	//go:embed record.lua
	recordSource string
	//go:embed change.lua
	changeSource string
	//go:embed mended.lua
	mendedSource string
	//go:embed begin.lua
	beginSource string
	//go:embed finish.lua
	finishSource string
	//go:embed beat.lua
	beatSource string
	//go:embed usage.lua
	usageSource string
	//go:embed events.lua
	eventsSource string
	//go:embed committed.lua
	committedSource string
	//go:embed watch.lua
	watchSource string
	//go:embed follow.lua
	followSource string
	//go:embed find.lua
	findSource string
	//go:embed lookup.lua
	lookupSource string
)

// Script.Run asks by hash and sends the source again when Redis does not know
// it (restart, failover, SCRIPT FLUSH), once per call.
//
//nolint:gochecknoglobals // embedded text with its hash; nothing writes to it
var (
	placeScript     = redis.NewScript(placeSource)
	rosterScript    = redis.NewScript(rosterSource)
	publishScript   = redis.NewScript(publishSource)
	canaryScript    = redis.NewScript(canarySource)
	recordScript    = redis.NewScript(recordSource)
	changeScript    = redis.NewScript(changeSource)
	mendedScript    = redis.NewScript(mendedSource)
	beginScript     = redis.NewScript(beginSource)
	finishScript    = redis.NewScript(finishSource)
	beatScript      = redis.NewScript(beatSource)
	usageScript     = redis.NewScript(usageSource)
	eventsScript    = redis.NewScript(eventsSource)
	committedScript = redis.NewScript(committedSource)
	watchScript     = redis.NewScript(watchSource)
	followScript    = redis.NewScript(followSource)
	findScript      = redis.NewScript(findSource)
	lookupScript    = redis.NewScript(lookupSource)
)
