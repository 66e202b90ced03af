package cli

import "testing"

func TestWhereOrchestratorsCanBe(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]bool{
		"127.0.0.1:7070": true, "[::1]:7070": true, "coppice:7070": true, ":7070": true, "a:7070,b:7070": true,
		"dns:///coppice:7070": true, "unix:/run/coppice.sock": true, "unix:coppice.sock": true,
		"": false, "nonsense": false, "nonsense:": false, "::1": false, "a:7070,b": false, "a:7070,": false,
	} {
		if got := isTarget(target); got != want {
			t.Errorf("%q: %t, want %t", target, got, want)
		}
	}
}
