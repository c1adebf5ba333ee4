package policy

// Severity of a Hazard.
type Severity string

// Severities.
const (
	SeverityRed   Severity = "red"   // limits can be lost or exceeded now, or gateways be stopped
	SeverityAmber Severity = "amber" // will hurt when something else fails
	SeverityNote  Severity = "note"  // a choice that one should know of
)

// Hazard is something about a Redis or PostgreSQL server that endangers what the
// limits promise, with what mends it.
type Hazard struct {
	Code     string   `json:"code"` // one of the Hazard codes
	Severity Severity `json:"severity"`
	Server   string   `json:"server"` // host:port, or what stands for it
	Text     string   `json:"text"`   // what is so, and what it can do
	Mend     string   `json:"mend"`   // what to do
}

// Hazard codes.
const (
	HazardEvictionPolicy = "eviction-policy" // maxmemory-policy is not noeviction
	HazardEvicting       = "evicting"        // keys were evicted since the last look, or ever
	HazardMemory         = "memory"          // close to maxmemory
	HazardVersion        = "version"         // older than Redis 7.0
	HazardMinReplicas    = "min-replicas"    // an isolated primary goes on admitting
	HazardNoTTL          = "no-ttl"          // limiter state that never goes away
	HazardClock          = "clock"           // the server's clock is away from the console's
	HazardSaving         = "saving"          // the last save to disk failed
	HazardPersistence    = "persistence"     // a restart empties it
	HazardSlowScript     = "slow-script"     // a call of the limiter's scripts took long
	HazardShared         = "shared"          // somebody else keeps keys there, too

	// Of PostgreSQL.
	HazardSchema     = "schema"     // of another headgate
	HazardPartitions = "partitions" // months of the ledger are missing, or rows lie in none
	HazardDurability = "durability" // a crash loses what was committed
	HazardVacuum     = "vacuum"     // nothing removes dead rows
	HazardStandby    = "standby"    // the server takes no writes
	HazardBusy       = "busy"       // close to its connections, or a transaction is open for long
)
