package server

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/face"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// systemService answers lmwarden.v1.SystemService.
type systemService struct{ *control }

var _ lmwardenv1connect.SystemServiceHandler = systemService{}

// GetInfo returns version, addresses and up time of the daemon.
func (s systemService) GetInfo(ctx context.Context, _ *lmwardenv1.GetInfoRequest) (*lmwardenv1.GetInfoResponse, error) {
	return &lmwardenv1.GetInfoResponse{Info: s.facts(ctx)}, nil
}

// facts returns the facts about the daemon with the cards of this moment.
func (c *control) facts(ctx context.Context) *lmwardenv1.Info {
	info := proto.CloneOf(c.info)
	inventory, _ := c.cards.read(ctx)
	info.Cards = cardsSummary(inventory.Devices)
	info.AsksForKey = c.asksForKey()
	return info
}

// cardsSummary returns "4 × RTX A4000", kinds in the order of the bus.
func cardsSummary(devices []gpu.Device) string {
	var names []string
	number := make(map[string]int)
	for _, d := range devices {
		name := or(strings.TrimPrefix(d.Name, "NVIDIA "), "card of unknown kind")
		if number[name] == 0 {
			names = append(names, name)
		}
		number[name]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d × %s", number[name], name)
	}
	return strings.Join(names, ", ")
}

// RunDoctor checks the box.
func (s systemService) RunDoctor(ctx context.Context, _ *lmwardenv1.RunDoctorRequest) (*lmwardenv1.RunDoctorResponse, error) {
	return &lmwardenv1.RunDoctorResponse{Checks: s.doctor(ctx)}, nil
}

// ListEvents lists events, newest first.
func (s systemService) ListEvents(_ context.Context, req *lmwardenv1.ListEventsRequest) (*lmwardenv1.ListEventsResponse, error) {
	before, err := pageStart(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, next := s.events.Page(req.GetModel(), before, pageSize(req.GetPageSize()))
	if len(page) == 0 { // a model that was removed has events still
		if err := s.knownOrAll(req.GetModel()); err != nil {
			return nil, err
		}
	}
	return &lmwardenv1.ListEventsResponse{Events: eventsOf(page), NextPageToken: pageToken(next)}, nil
}

// WatchEvents sends each event as it happens.
func (s systemService) WatchEvents(ctx context.Context, req *lmwardenv1.WatchEventsRequest, stream lmwardenv1connect.SystemServiceWatchEventsServerStream) error {
	if err := stream.SendHeaders(); err != nil {
		return err
	}
	for last := s.events.Last(); ; {
		events, err := s.events.After(ctx, req.GetModel(), last)
		if err != nil {
			return unlessLeft(ctx, err)
		}
		for _, e := range events {
			if err := stream.Send(&lmwardenv1.WatchEventsResponse{Event: event(e)}); err != nil {
				return err
			}
			last = e.ID
		}
	}
}

// backupChunk is the size of a piece of a backup, far below the message limit of
// clients.
const backupChunk = 256 << 10

// Backup streams a consistent copy of the database while it is in use.
func (s systemService) Backup(_ context.Context, _ *lmwardenv1.BackupRequest, stream lmwardenv1connect.SystemServiceBackupServerStream) error {
	w := bufio.NewWriterSize(backupWriter{stream}, backupChunk)
	if _, err := s.models.store.Backup(w); err != nil {
		return err
	}
	return w.Flush()
}

// backupWriter sends what is written to it.
type backupWriter struct {
	stream lmwardenv1connect.SystemServiceBackupServerStream
}

func (w backupWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); sent += backupChunk {
		if err := w.stream.Send(&lmwardenv1.BackupResponse{Data: p[sent:min(len(p), sent+backupChunk)]}); err != nil {
			return sent, err
		}
	}
	return len(p), nil
}

// DescribeSettings describes the fields of a settings message of the API.
func (s systemService) DescribeSettings(_ context.Context, req *lmwardenv1.DescribeSettingsRequest) (*lmwardenv1.DescribeSettingsResponse, error) {
	var fields []*lmwardenv1.SettingsField
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(req.GetMessage()))
	if md, ok := d.(protoreflect.MessageDescriptor); err == nil && ok {
		fields = face.Describe(md)
	}
	if len(fields) == 0 {
		return nil, invalid("message: %q is no settings message; there are %s", req.GetMessage(), strings.Join(settingsMessages(), ", "))
	}
	return &lmwardenv1.DescribeSettingsResponse{Fields: fields}, nil
}

// settingsMessages returns the messages of the API that have fields with a face.
func settingsMessages() []string {
	var names []string
	protoregistry.GlobalFiles.RangeFilesByPackage("lmwarden.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			if md := f.Messages().Get(i); len(face.Fields(md)) > 0 {
				names = append(names, string(md.FullName()))
			}
		}
		return true
	})
	return names
}
