package telemetry

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// checkExporters rejects unknown exporters. For signals that are exported it also rejects
// endpoints that are not URLs, which would be taken for another address, unsupported protocols,
// which the receiver would not understand, and malformed headers, which OpenTelemetry would print
// with the secrets in them and then leave out.
func checkExporters(getenv func(string) string) error {
	if isTrue(getenv("OTEL_SDK_DISABLED")) {
		return nil
	}
	var all []error
	for _, signal := range []string{"TRACES", "METRICS", "LOGS"} {
		exporter := "OTEL_" + signal + "_EXPORTER"
		if name := getenv(exporter); name != "" && name != "otlp" && name != "none" {
			all = append(all, fmt.Errorf("%s is %q, must be otlp or none", exporter, name))
		}
		endpoint := "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"
		if getenv(endpoint) == "" {
			endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
		}
		if isExported(getenv, signal) && !isEndpoint(getenv(endpoint)) {
			all = append(all, fmt.Errorf("%s must be a URL like http://127.0.0.1:4317, or with https or unix", endpoint))
		}
		protocol := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
		if getenv(protocol) == "" {
			protocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
		}
		if name := getenv(protocol); name != "" && name != "grpc" && isExported(getenv, signal) {
			all = append(all, fmt.Errorf("%s is %q, must be grpc; name a port for gRPC (4317 rather than 4318)", protocol, name))
		}
		if isExported(getenv, signal) {
			all = append(all, checkHeaders(getenv, "OTEL_EXPORTER_OTLP_HEADERS"), checkHeaders(getenv, "OTEL_EXPORTER_OTLP_"+signal+"_HEADERS"))
		}
	}
	return joinDistinct(all)
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && ((u.Scheme == "http" || u.Scheme == "https") && u.Host != "" || u.Scheme == "unix" && u.Path != "")
}

// checkHeaders returns an error if the headers in a variable are malformed. It does not quote them,
// because they usually contain a secret.
func checkHeaders(getenv func(string) string, name string) error {
	headers := getenv(name)
	if headers == "" {
		return nil
	}
	for header := range strings.SplitSeq(headers, ",") {
		key, value, found := strings.Cut(header, "=")
		_, err := url.PathUnescape(value)
		if !found || err != nil || !httpguts.ValidHeaderFieldName(strings.TrimSpace(key)) {
			return fmt.Errorf("%s must be like name=value,name=value; in a value a comma is written as %%2C, and %% as %%25", name)
		}
	}
	return nil
}
