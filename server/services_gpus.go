package server

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/supervisor"
)

// gpuService answers lmwarden.v1.GpuService.
type gpuService struct{ *control }

var _ lmwardenv1connect.GpuServiceHandler = gpuService{}

// ListGpus lists the cards.
func (s gpuService) ListGpus(ctx context.Context, _ *lmwardenv1.ListGpusRequest) (*lmwardenv1.ListGpusResponse, error) {
	return s.gpus(ctx), nil
}

// gpus returns the cards, each with the replica that it is assigned to.
func (c *control) gpus(ctx context.Context) *lmwardenv1.ListGpusResponse {
	inventory, none := c.cards.read(ctx)
	out := &lmwardenv1.ListGpusResponse{Message: none, DriverVersion: inventory.DriverVersion}
	holders := c.loop.holders()
	for _, d := range inventory.Devices {
		var holder *supervisor.ReplicaID
		if h, held := holders[d.UUID]; held {
			holder = &h
		}
		out.Gpus = append(out.Gpus, card(d, holder, c.now()))
	}
	return out
}

// WatchGpus sends the cards now and once a second: their age changes with each look.
func (s gpuService) WatchGpus(ctx context.Context, _ *lmwardenv1.WatchGpusRequest, stream lmwardenv1connect.GpuServiceWatchGpusServerStream) error {
	return everySecond(ctx, func() error {
		g := s.gpus(ctx)
		return stream.Send(&lmwardenv1.WatchGpusResponse{Gpus: g.GetGpus(), Message: g.GetMessage()})
	})
}

// withoutAge drops what changes even when nothing does, so that two readings can be
// compared.
func withoutAge(cards []*lmwardenv1.Gpu) {
	for _, g := range cards {
		g.Age = (*durationpb.Duration)(nil)
	}
}
