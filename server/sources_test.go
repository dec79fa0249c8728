package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// Every source that the API takes reaches the proxy, at once.
func TestIdentitySourcesReachTheProxy(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	_, err := r.routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
		Model: "m", UpdateMask: mask("session_headers", "identity_sources"),
		Settings: &lmwardenv1.RoutingSettings{
			SessionHeaders:  []string{"x-dynamo-session-id"},
			IdentitySources: []string{"user", "safety_identifier", "metadata.user_id", "x-user-id", "x-correlation-id", "client-ip"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Options{ExtraHeaders: []string{"X-Dynamo-Session-Id"}, User: true, Safety: true, MetadataUser: true, UserHeader: true, Correlation: true, ClientIP: true}
	if diff := cmp.Diff(want, r.plane.model(t, "m").Identity); diff != "" {
		t.Errorf("when the call answers the proxy has (-want +got):\n%s", diff)
	}
}
