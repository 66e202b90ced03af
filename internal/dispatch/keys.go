package dispatch

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
)

// The grammar of names in Redis:
//
//	coppice:{<installation>}:ready:<pool>   stream: hints for the workers of a pool
//	    group "workers"                     one consumer for each worker, by its id
//	coppice:{<installation>}:nudge          channel: sessions to look at
//	coppice:{<installation>}:wish           channel: sessions whose text a replica shows
//	coppice:{<installation>}:text:<replica> channel: text for a replica to show
//	coppice:{<installation>}:rate:<bucket>  a provider's rate limit; workers' alone
//	    ...:limit                           hash: what is known of it
//	    ...:queue                           sorted set: who waits for it
//	    ...:heard                           hash: when who waits has last asked
//	    ...:flows                           hash: whose turns those who wait take
//	    (without a suffix, ...:asked, ...:left: of releases whose queue was not fair)
//
//	<installation>  1 to 64 of A-Z, a-z, 0-9 and -: the database's installation id
//	<pool>          1 to 63 of a-z, 0-9 and -
//	<replica>       what a replica is called, escaped as in the query of a URL
//	<bucket>        a provider's name, a colon, and 16 of 0-9 and a-f
//
// The braces make the installation id the hash tag: in a Redis cluster, all keys
// of an installation are in one slot.
const (
	prefix        = "coppice:"
	consumerGroup = "workers"
)

// ErrPool says that a name can't be a pool's.
var ErrPool = errors.New("a pool's name is 1 to 63 of a-z, 0-9 and -")

// ErrInstallation says that an id can't be an installation's.
var ErrInstallation = errors.New("an installation's id is 1 to 64 of A-Z, a-z, 0-9 and -")

var (
	poolName       = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	installationID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

// keys names what belongs to one installation.
type keys struct{ base string }

// CheckInstallation says why an id can't be an installation's.
func CheckInstallation(id string) error {
	if !installationID.MatchString(id) {
		return fmt.Errorf("%w, not %q", ErrInstallation, id)
	}
	return nil
}

// CheckPool says why a name can't be a pool's.
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

// RateBucket names the bucket of a rate limit.
func (b *Bus) RateBucket(bucket string) string { return b.keys.base + ":rate:" + bucket }
