package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
)

func TestRoutingCard(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	key := route.Key{1, 2, 3, 4, 5, 6, 7, 8, 9}
	r.plane.conversations = []route.ConversationView{
		{Key: key, Home: 0, Context: 30_000, Turns: 3, Live: true, Active: true, Working: 20_000, Resident: 29_000},
		{Key: route.Key{9}, Home: 0, Context: 60_000, Turns: 9, Live: true, Active: true, Working: 50_000},
		{Key: route.Key{7}, Home: 0, Context: 70_000, Live: true},
		{Key: route.Key{8}, Home: -1},
	}
	r.plane.setView("m", route.View{
		Replicas: []route.ReplicaView{
			{InFlight: 2, Live: 3, LiveTokens: 150_000, Active: 2, ActiveTokens: 90_000, Admitted: 2, AdmittedTokens: 88_000, Capacity: 100_000, Counts: [route.NumClasses]uint64{route.ClassSticky: 8, route.ClassPlaced: 2}},
			{Capacity: 100_000, Counts: [route.NumClasses]uint64{route.ClassSpilled: 2}},
		},
		Counts:   [route.NumClasses]uint64{route.ClassSticky: 8, route.ClassPlaced: 2, route.ClassSpilled: 2},
		InFlight: 2, Live: 3, Active: 2, SpillThreshold: 8, SpillAuto: true, SharedTokens: 10_000,
	})
	r.stats.Record(proxy.Record{ID: "r1", Model: "m", KeySource: "cc-header", Decided: true, Decision: route.Decision{Class: route.ClassSticky, Conversation: key, Home: 0, Turn: 3}, Prompt: 100, Cached: 90, Completion: 5, Arrived: time.Now()})
	r.stats.Close()
	resp, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	card := resp.GetCard()
	if card.GetStickyPercent() != 80 || card.GetSpillThreshold() != 8 || !card.GetSpillThresholdAuto() || card.GetInFlight() != 2 {
		t.Errorf("pills: %v", card)
	}
	row := card.GetReplicas()[0]
	if row.GetFit() != lmwardenv1.Fit_FIT_EDGE || row.GetCounts().GetSticky() != 8 || row.GetCapacityTokens() != 100_000 || row.KvUsed != nil {
		t.Errorf("row 0: %v", row)
	}
	if cs := row.GetConversations(); len(cs) != 2 || cs[0].GetContextTokens() != 60_000 || cs[1].GetId() != "0102030405060708" || cs[1].GetKeySource() != "cc-header" || cs[1].GetWorkingTokens() != 20_000 {
		t.Errorf("conversations: %v; want the longest first", cs)
	}
	// Both halves count: 90,000 of 200,000 fits; the mean is 40,000, which fits twice
	// on replica 1 beside the shared prompt and not on replica 0.
	if card.GetFit() != lmwardenv1.Fit_FIT_FITS || card.GetRoomFor() != 2 || card.GetSharedTokens() != 10_000 {
		t.Errorf("fit %v, room for %d", card.GetFit(), card.GetRoomFor())
	}
	if len(card.GetLatest()) != 1 || card.GetLatest()[0].GetReason() == "" {
		t.Errorf("latest: %v", card.GetLatest())
	}
}

func TestConversations(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 2)
	for i := range 5 {
		r.plane.conversations = append(r.plane.conversations, route.ConversationView{Key: route.Key{byte(i + 1)}, Home: i % 2})
	}
	var ids []string
	for token := ""; ; {
		page, err := r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", PageSize: 2, PageToken: token})
		if err != nil || len(page.GetConversations()) > 2 {
			t.Fatalf("%v, %v", page, err)
		}
		for _, c := range page.GetConversations() {
			ids = append(ids, c.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(ids) != 5 || ids[0] != "0100000000000000" {
		t.Errorf("pages held %v", ids)
	}
	one, err := r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", Replica: proto.Uint32(1)})
	if err != nil || len(one.GetConversations()) != 2 {
		t.Errorf("on replica 1: %v, %v", one, err)
	}
	moved, err := r.routing.MoveConversation(t.Context(), &lmwardenv1.MoveConversationRequest{Model: "m", Conversation: ids[0], Replica: 1})
	if err != nil || moved.GetConversation().GetHome() != 1 {
		t.Errorf("move: %v, %v", moved, err)
	}
	_, err = r.routing.MoveConversation(t.Context(), &lmwardenv1.MoveConversationRequest{Model: "m", Conversation: ids[0], Replica: 2})
	wantError(t, err, connect.CodeNotFound, "has no replica 2")
	if _, err := r.routing.ForgetConversation(t.Context(), &lmwardenv1.ForgetConversationRequest{Model: "m", Conversation: ids[0]}); err != nil {
		t.Error(err)
	}
	_, err = r.routing.ForgetConversation(t.Context(), &lmwardenv1.ForgetConversationRequest{Model: "m", Conversation: ids[0]})
	wantError(t, err, connect.CodeNotFound, "knows no conversation")
	_, err = r.routing.ListConversations(t.Context(), &lmwardenv1.ListConversationsRequest{Model: "m", PageToken: "x"})
	wantError(t, err, connect.CodeInvalidArgument, "page_token")
}

func TestStatsAndRequests(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	for i, status := range []int{200, 200, 502} {
		r.stats.Record(proxy.Record{
			ID: "r" + string(rune('0'+i)), Model: "m", Arrived: time.Now().Add(-2 * time.Second), Duration: time.Second, FirstToken: 100 * time.Millisecond,
			Status: status, Decided: true, Decision: route.Decision{Class: route.ClassSticky, Turn: uint64(i + 1), Home: -1}, Prompt: 100, Cached: 75, Completion: -1,
		})
	}
	r.stats.Close()
	tp, err := r.statsAPI.QueryThroughput(t.Context(), &lmwardenv1.QueryThroughputRequest{Model: "m"})
	if err != nil || len(tp.GetThroughput().GetBuckets()) != 60 || tp.GetThroughput().GetHitRateHour() != 0.75 {
		t.Errorf("throughput: %v, %v", tp.GetThroughput().GetHitRateHour(), err)
	}
	lat, err := r.statsAPI.QueryLatency(t.Context(), &lmwardenv1.QueryLatencyRequest{})
	if err != nil || lat.GetFirstTurns().GetCount() != 1 || lat.GetLaterTurns().GetCount() != 2 || lat.GetFirstToken().P50 == nil {
		t.Errorf("latency: %v, %v", lat, err)
	}
	failed, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Failed: true})
	if err != nil || len(failed.GetRequests()) != 1 || failed.GetRequests()[0].GetId() != "r2" || failed.GetRequests()[0].Home != nil || failed.GetRequests()[0].CompletionTokens != nil {
		t.Errorf("failed: %v, %v", failed, err)
	}
	page, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{PageSize: 2})
	if err != nil || len(page.GetRequests()) != 2 || page.GetNextPageToken() == "" {
		t.Fatalf("page: %v, %v", page, err)
	}
	rest, err := r.statsAPI.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{PageSize: 2, PageToken: page.GetNextPageToken()})
	if err != nil || len(rest.GetRequests()) != 1 || rest.GetRequests()[0].GetId() != "r0" || rest.GetNextPageToken() != "" {
		t.Errorf("second page: %v, %v", rest, err)
	}
	explained, err := r.routing.ExplainRequest(t.Context(), &lmwardenv1.ExplainRequestRequest{Id: "r1"})
	if err != nil || explained.GetRecord().GetDecision() != lmwardenv1.DecisionClass_DECISION_CLASS_STICKY {
		t.Errorf("explain: %v, %v", explained, err)
	}
	_, err = r.statsAPI.GetRequest(t.Context(), &lmwardenv1.GetRequestRequest{Id: "gone"})
	wantError(t, err, connect.CodeNotFound, "not in the history")
}

func TestGpusShowTheirHolders(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 3)
	got, err := r.gpusAPI.ListGpus(t.Context(), &lmwardenv1.ListGpusRequest{})
	if err != nil || len(got.GetGpus()) != 4 {
		t.Fatalf("%v, %v", got, err)
	}
	if g := got.GetGpus()[2]; g.GetModel() != "m" || g.GetReplica() != 2 || !g.GetSimulated() {
		t.Errorf("card 2: %v", g)
	}
	if g := got.GetGpus()[3]; g.GetModel() != "" || g.Replica != nil {
		t.Errorf("the free card: %v", g)
	}
	info, err := r.system.GetInfo(t.Context(), &lmwardenv1.GetInfoRequest{})
	if err != nil || info.GetInfo().GetCards() != "4 × RTX A4000" {
		t.Errorf("info: %v, %v", info, err)
	}
}

func TestSystem(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	doctor, err := r.system.RunDoctor(t.Context(), &lmwardenv1.RunDoctorRequest{})
	if err != nil || len(doctor.GetChecks()) < 6 {
		t.Fatalf("%v, %v", doctor, err)
	}
	for _, c := range doctor.GetChecks() {
		if c.GetName() == "" || c.GetMessage() == "" || !c.GetOk() && c.GetFix() == "" {
			t.Errorf("check %v is not complete", c)
		}
	}
	described, err := r.system.DescribeSettings(t.Context(), &lmwardenv1.DescribeSettingsRequest{Message: "lmwarden.v1.RoutingSettings"})
	if err != nil || described.GetFields()[0].GetName() != "affinity" {
		t.Errorf("settings: %v, %v", described, err)
	}
	_, err = r.system.DescribeSettings(t.Context(), &lmwardenv1.DescribeSettingsRequest{Message: "lmwarden.v1.Gpu"})
	wantError(t, err, connect.CodeInvalidArgument, "lmwarden.v1.ModelSpec")
	r.events.Add(stats.Event{Severity: stats.Error, Kind: "replica_failed", Model: "m", Replica: 0, Message: "x"})
	events, err := r.system.ListEvents(t.Context(), &lmwardenv1.ListEventsRequest{Model: "m"})
	if err != nil || len(events.GetEvents()) != 2 || events.GetEvents()[0].Replica == nil {
		t.Errorf("events: %v, %v", events, err)
	}
}

func TestBackupCanBeOpened(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	stream, err := r.system.Backup(t.Context(), &lmwardenv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, m.GetData()...)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if records, err := st.Models(); err != nil || len(records) != 1 || decodeEntry(records[0]).model.GetSpec().GetSource() != "Qwen/Qwen3-4B" {
		t.Errorf("the copy holds %v, %v", records, err)
	}
}

// A chart of an hour says nothing of a daemon that has been up for two minutes.
func TestAYoungDaemonsChartIsShort(t *testing.T) {
	for up, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, 2 * time.Minute: 5 * time.Minute, 5 * time.Minute: 15 * time.Minute,
		20 * time.Minute: 30 * time.Minute, 45 * time.Minute: time.Hour, 100 * time.Hour: time.Hour,
	} {
		if got := youngSpan(up); got != want {
			t.Errorf("up %s: a chart of %s, want %s", up, got, want)
		}
	}
}
