package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/coppice-run/coppice/internal/tree"
)

// Replica has the metrics of an orchestrator.
type Replica struct {
	*Runs
	batch        metric.Int64Histogram
	took         metric.Float64Histogram
	refused      metric.Int64Counter
	lag          metric.Float64Histogram
	cost         metric.Float64Counter
	spawned      metric.Int64Counter
	spawnRefused metric.Int64Counter
	takenOver    metric.Int64Counter
	reattached   metric.Int64Counter
	dead         metric.Int64Counter

	reasonLabels  *labelCache[string]
	modelLabels   *labelCache[string]
	kindLabels    *labelCache[tree.Kind]
	refusalLabels *labelCache[tree.SpawnOutcome]
}

// ReplicaState is the state of a replica at one moment. The figures about work are those of the
// whole installation, so all replicas report the same.
type ReplicaState struct {
	Ready, Held, Running int
	OldestReady          time.Duration // how long the oldest ready run has waited for a worker
	OpenApprovals        int           // open approvals
	OldestApproval       time.Duration // age of the oldest open approval
	Slots                int           // of all workers
	Streams              int           // of workers, on this replica
	Watchers             int           // of sessions, on this replica
	LongestSilence       time.Duration // longest time since anything was received for a run with a worker on this replica
}

// stateTimeout bounds the query for the state.
const stateTimeout = 2 * time.Second

// Replica creates the metrics of an orchestrator. state is called on each collection, even
// after the replica has ended. If it returns an error, the figures about work and approvals are
// omitted and the others are reported.
func (t *Telemetry) Replica(pool string, state func(context.Context) (ReplicaState, error)) (*Replica, error) {
	runs, err := t.Runs(pool)
	if err != nil {
		return nil, err
	}
	m := t.instruments()
	r := &Replica{
		Runs:         runs,
		batch:        m.sizes("coppice.commit.commands", "{command}", "Commands in one transaction."),
		took:         m.histogram("coppice.commit.duration", "How long a transaction took, from its beginning until it was stored."),
		refused:      m.counter("coppice.command.refused", "{command}", "Commands that were refused, by reason."),
		lag:          m.histogram("coppice.watch.lag", "From when an event happened until it was given to a watcher that had seen all before it."),
		cost:         m.amount("coppice.cost.usd", "{USD}", "What the answers of models have cost that were recorded, in US dollars, as far as there are prices."),
		spawned:      m.counter("coppice.spawn.started", "{task}", "Children that agents and clients have started."),
		spawnRefused: m.counter("coppice.spawn.refused", "{task}", "Children that agents and clients were refused, by reason."),
		takenOver:    m.counter("coppice.attempt.taken_over", "{attempt}", "Attempts that this replica has taken back from replicas that are gone."),
		reattached:   m.counter("coppice.attempt.reattached", "{attempt}", "Attempts that have gone on over another stream than they began on."),
		dead:         m.counter("coppice.worker.dead", "{worker}", "Workers that were found dead after their streams broke, so that their runs did not wait for them."),
	}
	r.prepareLabels(labelPool.String(pool))
	return r, errors.Join(m.err, r.registerGauges(m, state))
}

// prepareLabels creates the label caches. Counters that may stay without an event for long
// start with 0, so that the first event shows as an increase.
func (r *Replica) prepareLabels(pool attribute.KeyValue) {
	r.reasonLabels = newLabelCache(func(reason string) []attribute.KeyValue {
		return []attribute.KeyValue{labelReason.String(reason)}
	})
	r.modelLabels = newLabelCache(func(model string) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelModel.String(model)}
	})
	r.kindLabels = newLabelCache(func(kind tree.Kind) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelKind.String(lowerName(kind))}
	})
	r.refusalLabels = newLabelCache(func(v tree.SpawnOutcome) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelKind.String(lowerName(v.Kind)), labelReason.String(v.Refused)}
	})
	ctx := context.Background()
	for _, kind := range []tree.Kind{tree.KindAgent, tree.KindShell} {
		r.spawned.Add(ctx, 0, r.kindLabels.get(kind).add...)
	}
	r.takenOver.Add(ctx, 0, r.poolLabels.add...)
	r.reattached.Add(ctx, 0, r.poolLabels.add...)
	r.dead.Add(ctx, 0, r.poolLabels.add...)
}

// registerGauges creates the gauges.
func (r *Replica) registerGauges(m *instruments, state func(context.Context) (ReplicaState, error)) error {
	work := m.gauge("coppice.work", "{run}", "Runs that wait for a worker, runs that wait for others to end, and runs that have a worker.")
	oldest := m.seconds("coppice.work.oldest", "How long the run has waited for a worker that has waited longest.")
	silent := m.seconds("coppice.run.silent.oldest", "For how long nothing was heard of the run of an agent of which nothing was heard for longest, of those whose workers are on this replica.")
	asked := m.gauge("coppice.approvals.open", "{approval}", "Approvals that nobody has decided.")
	unanswered := m.seconds("coppice.approvals.oldest", "How long the approval has been open that has been longest.")
	slots := m.gauge("coppice.worker.slots", "{run}", "How many runs all workers can carry.")
	streams := m.gauge("coppice.worker.streams", "{stream}", "Streams of workers on this replica.")
	watchers := m.gauge("coppice.watchers", "{watcher}", "Watchers of sessions on this replica.")
	if m.err != nil {
		return m.err
	}
	pool := labelPool.String(r.pool)
	with := func(attrs ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributes(append(attrs, pool)...)
	}
	_, err := r.Meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, stateTimeout)
		defer cancel()
		now, err := state(ctx)
		if err == nil { // an error would drop all other metrics as well
			o.ObserveInt64(work, int64(now.Ready), with(labelState.String("ready")))
			o.ObserveInt64(work, int64(now.Held), with(labelState.String("held")))
			o.ObserveInt64(work, int64(now.Running), with(labelState.String("running")))
			o.ObserveFloat64(oldest, now.OldestReady.Seconds(), with())
			o.ObserveInt64(asked, int64(now.OpenApprovals), with())
			o.ObserveFloat64(unanswered, now.OldestApproval.Seconds(), with())
		}
		o.ObserveInt64(slots, int64(now.Slots), with())
		o.ObserveInt64(streams, int64(now.Streams), with())
		o.ObserveInt64(watchers, int64(now.Watchers))
		o.ObserveFloat64(silent, now.LongestSilence.Seconds(), with())
		return nil
	}, work, oldest, silent, asked, unanswered, slots, streams, watchers)
	return err
}

// Committed records a transaction.
func (r *Replica) Committed(commands int, refused []string, took time.Duration) {
	ctx := context.Background()
	r.batch.Record(ctx, int64(commands))
	r.took.Record(ctx, took.Seconds())
	for _, reason := range refused {
		r.refused.Add(ctx, 1, r.reasonLabels.get(reason).add...)
	}
}

// Judged counts an accepted or refused spawn.
func (r *Replica) Judged(v tree.SpawnOutcome) {
	if v.Refused == "" {
		r.spawned.Add(context.Background(), 1, r.kindLabels.get(v.Kind).add...)
		return
	}
	r.spawnRefused.Add(context.Background(), 1, r.refusalLabels.get(v).add...)
}

// Spent counts the cost of a model's answer, in millionths of a US dollar.
func (r *Replica) Spent(model string, micros int64) {
	r.cost.Add(context.Background(), float64(micros)/1e6, r.modelLabels.get(r.names.learn(model)).add...)
}

// TakenOver counts an attempt that this replica took over from a dead replica.
func (r *Replica) TakenOver() { r.takenOver.Add(context.Background(), 1, r.poolLabels.add...) }

// Reattached counts an attempt that continues over another stream.
func (r *Replica) Reattached() { r.reattached.Add(context.Background(), 1, r.poolLabels.add...) }

// WorkerDied counts a worker whose process was found dead.
func (r *Replica) WorkerDied() { r.dead.Add(context.Background(), 1, r.poolLabels.add...) }

// Watched records how old an event was when a watcher got it.
func (r *Replica) Watched(ago time.Duration) { r.lag.Record(context.Background(), ago.Seconds()) }
