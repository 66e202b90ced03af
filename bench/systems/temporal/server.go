package main

import (
	"fmt"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	limitless   = 1_000_000 // a second
	namespace   = "bench"
	clusterName = "active"
	loopback    = "127.0.0.1"
)

// settings of the server beyond its defaults.
func settings(tuned bool) dynamicconfig.StaticClient {
	if !tuned {
		return dynamicconfig.StaticClient{}
	}
	return dynamicconfig.StaticClient{
		// A queue of tasks need not be spread over partitions on one machine, and a task
		// that waits in another partition than its poller is what takes long.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A task for which no worker waits at that moment is kept for this long before it
		// is written to the store, from where the next worker gets it.
		dynamicconfig.MatchingSyncMatchWaitDuration.Key(): 5 * time.Millisecond,
		// The queue of what follows from a decision is looked at 20 times a second, each
		// child needs several looks one after another: that is the 200 ms of the defaults.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():       limitless,
		dynamicconfig.TransferProcessorMaxPollHostRPS.Key():   limitless,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():          limitless,
		dynamicconfig.TimerProcessorMaxPollHostRPS.Key():      limitless,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key():     limitless,
		dynamicconfig.VisibilityProcessorMaxPollHostRPS.Key(): limitless,
		// Nothing else is limited.
		dynamicconfig.FrontendRPS.Key():                        limitless,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(): limitless,
		dynamicconfig.HistoryRPS.Key():                         limitless,
		dynamicconfig.MatchingRPS.Key():                        limitless,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():           limitless,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():          limitless,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():          limitless,
	}
}

// newServer makes a server and its store, and says where it will answer.
func newServer(store *config.SQL, tuned bool) (temporal.Server, string, error) {
	c, hosts, err := configuration(store)
	if err != nil {
		return nil, "", err
	}
	space, err := schema.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err != nil {
		return nil, "", fmt.Errorf("describing the namespace: %w", err)
	}
	if err := schema.CreateNamespaces(store, space); err != nil {
		return nil, "", fmt.Errorf("making the namespace: %w", err)
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(c), temporal.ForServices(temporal.DefaultServices), temporal.WithLogger(log.NewNoopLogger()),
		temporal.WithStaticHosts(hosts), temporal.WithDynamicConfigClient(settings(tuned)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
	)
	if err != nil {
		return nil, "", fmt.Errorf("making the server: %w", err)
	}
	return server, c.PublicClient.HostPort, nil
}

// configuration is that of a server of one process.
func configuration(store *config.SQL) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	roles := map[primitives.ServiceName]config.Service{}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, role := range []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	} {
		port, err := system.FreePort()
		if err != nil {
			return nil, nil, err
		}
		roles[role] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
		hosts[role] = static.SingleLocalHost(fmt.Sprintf("%s:%d", loopback, port))
	}
	frontend := fmt.Sprintf("%s:%d", loopback, roles[primitives.FrontendService].RPC.GRPCPort)
	c := &config.Config{
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}},
		Persistence: config.Persistence{
			DefaultStore: sqlite.PluginName, VisibilityStore: sqlite.PluginName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{sqlite.PluginName: {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	for role, service := range roles {
		c.Services[string(role)] = service
	}
	return c, hosts, nil
}
