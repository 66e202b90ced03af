package dispatch

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
)

// The names in Redis:
//
//	coppice:{<installation>}:ready:<pool>   stream: hints for the workers of a pool
//	    group "workers"                     one consumer for each worker, by its id
//	coppice:{<installation>}:nudge          channel: sessions to look at
//	coppice:{<installation>}:wish           channel: interests in the text of sessions
//	coppice:{<installation>}:text:<replica> channel: text for a replica to show
//	coppice:{<installation>}:rate:<bucket>  a provider's rate limit; used by workers only
//	    ...:limit                           hash: what is known of the limit
//	    ...:queue                           sorted set: who waits for the limit
//	    ...:heard                           hash: when each waiter last asked
//	    ...:flows                           hash: whose turns the waiters take
//	    (without a suffix, ...:asked, ...:left: of releases whose queue was not fair)
//
//	<installation>  1 to 64 of A-Z, a-z, 0-9 and -: the database's installation id
//	<pool>          1 to 63 of a-z, 0-9 and -
//	<replica>       the name of a replica, escaped as in the query of a URL
//	<bucket>        a provider's name, a colon, and 16 of 0-9 and a-f
//
// The braces make the installation id the hash tag. So in a Redis cluster all keys of an
// installation are in one slot.
const (
	prefix        = "coppice:"
	consumerGroup = "workers"
)

// ErrPool says that a name is not valid for a pool.
var ErrPool = errors.New("a pool's name is 1 to 63 of a-z, 0-9 and -")

// ErrInstallation says that an id is not valid for an installation.
var ErrInstallation = errors.New("an installation's id is 1 to 64 of A-Z, a-z, 0-9 and -")

var (
	poolName       = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	installationID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

// keys builds the names that belong to one installation.
type keys struct{ base string }

// CheckInstallation returns an error if an id is not valid for an installation.
func CheckInstallation(id string) error {
	if !installationID.MatchString(id) {
		return fmt.Errorf("%w, not %q", ErrInstallation, id)
	}
	return nil
}

// CheckPool returns an error if a name is not valid for a pool.
func CheckPool(name string) error {
	if !poolName.MatchString(name) {
		return fmt.Errorf("%w, not %q", ErrPool, name)
	}
	return nil
}

func newKeys(installation string) (keys, error) {
	if err := CheckInstallation(installation); err != nil {
		return keys{}, err
	}
	return keys{base: prefix + "{" + installation + "}"}, nil
}

func (k keys) ready(pool string) (string, error) {
	if err := CheckPool(pool); err != nil {
		return "", err
	}
	return k.base + ":ready:" + pool, nil
}

func (k keys) nudge() string { return k.base + ":nudge" }

func (k keys) interest() string { return k.base + ":wish" }

func (k keys) text(replica string) string { return k.base + ":text:" + url.QueryEscape(replica) }

// RateBucket returns the key of a rate limit.
func (b *Bus) RateBucket(bucket string) string { return b.keys.base + ":rate:" + bucket }
