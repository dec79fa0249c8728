package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

const (
	// quietAfter is the time without a message after which a sign of life is sent:
	// longer than a watch is quiet by chance, shorter than people's patience.
	quietAfter = 5 * time.Second
	// firstEvents is how many past events a page gets.
	firstEvents = 50
)

// pageWatch is the one stream of a page. Its fields are owned by the call.
type pageWatch struct {
	*control
	req    *lmwardenv1.WatchRequest
	stream lmwardenv1connect.SystemServiceWatchServerStream

	lastSent  time.Time
	lastEvent uint64
	parts     []pagePart
}

// pagePart is one part of what a page shows. Look returns the message to send and what
// it is compared by: without figures that change by themselves.
type pagePart struct {
	look func(context.Context) (message *lmwardenv1.WatchResponse, compare proto.Message, err error)
	last proto.Message
}

// Watch sends everything that a page shows, each part now and when it changed.
func (s systemService) Watch(ctx context.Context, req *lmwardenv1.WatchRequest, stream lmwardenv1connect.SystemServiceWatchServerStream) error {
	w := &pageWatch{control: s.control, req: req, stream: stream}
	w.choose()
	if err := w.send(&lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Info{Info: s.facts(ctx)}}); err != nil {
		return err
	}
	if req.GetEvents() {
		if err := w.sendPastEvents(); err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// run sends changes until ctx ends. Events are sent at once, everything else is looked
// at once a second.
func (w *pageWatch) run(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	look := true
	for {
		// Asked for before the events are read, so that none falls between.
		more := w.events.More()
		err := w.sendEvents()
		if look && err == nil {
			err = w.sendParts(ctx)
		}
		if err != nil {
			return unlessLeft(ctx, err)
		}
		if !w.req.GetEvents() {
			more = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
			look = false
		case <-tick.C:
			look = true
		}
	}
}

// choose sets up the parts that the page asked for.
func (w *pageWatch) choose() {
	add := func(look func(context.Context) (*lmwardenv1.WatchResponse, proto.Message, error)) {
		w.parts = append(w.parts, pagePart{look: look})
	}
	if w.req.GetModels() {
		add(func(context.Context) (*lmwardenv1.WatchResponse, proto.Message, error) {
			part := &lmwardenv1.WatchModelsPart{Models: w.allModels()}
			return &lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Models{Models: part}}, part, nil
		})
	}
	if w.req.GetGpus() {
		add(w.lookGpus)
	}
	if model := w.req.GetRouting(); model != "" {
		add(func(context.Context) (*lmwardenv1.WatchResponse, proto.Message, error) {
			card, err := w.card(model)
			return &lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Routing{Routing: card}}, card, err
		})
	}
	if w.req.Stats != nil {
		add(func(context.Context) (*lmwardenv1.WatchResponse, proto.Message, error) {
			over := youngSpan(w.now().Sub(w.info.GetStarted().AsTime()))
			if s := w.req.GetSpanSeconds(); s > 0 {
				over = max(10*time.Second, time.Duration(s)*time.Second)
			}
			t, err := w.throughput(w.req.GetStats(), over, w.req.GetMaxBuckets())
			return &lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Stats{Stats: t}}, t, err
		})
	}
}

// youngSpan returns the span that a chart shows of a daemon that has been up for so
// long: an hour, and less while most of an hour would be empty.
func youngSpan(up time.Duration) time.Duration {
	for _, span := range []time.Duration{5 * time.Minute, 15 * time.Minute, 30 * time.Minute} {
		if up < span {
			return span
		}
	}
	return defaultSpan
}

func (w *pageWatch) lookGpus(ctx context.Context) (*lmwardenv1.WatchResponse, proto.Message, error) {
	g := w.gpus(ctx)
	part := &lmwardenv1.WatchGpusPart{Gpus: g.GetGpus(), Message: g.GetMessage()}
	compare := proto.CloneOf(part)
	withoutAge(compare.GetGpus())
	return &lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Gpus{Gpus: part}}, compare, nil
}

// sendParts sends the parts that changed, or a sign of life when nothing was sent for
// a while.
func (w *pageWatch) sendParts(ctx context.Context) error {
	for i := range w.parts {
		p := &w.parts[i]
		message, compare, err := p.look(ctx)
		if err != nil {
			return err
		}
		if p.last != nil && proto.Equal(p.last, compare) {
			continue
		}
		p.last = compare
		if err := w.send(message); err != nil {
			return err
		}
	}
	if time.Since(w.lastSent) < quietAfter {
		return nil
	}
	return w.send(&lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Heartbeat{Heartbeat: &lmwardenv1.Heartbeat{Time: timestamppb.Now()}}})
}

func (w *pageWatch) sendPastEvents() error {
	page, _ := w.events.Page("", 0, firstEvents)
	if len(page) == 0 {
		return nil
	}
	w.lastEvent = page[0].ID
	return w.send(&lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Events{Events: &lmwardenv1.WatchEventsPart{Events: eventsOf(page)}}})
}

// sendEvents sends the events since the last one, newest first.
func (w *pageWatch) sendEvents() error {
	if !w.req.GetEvents() || w.events.Last() == w.lastEvent {
		return nil
	}
	page, _ := w.events.Page("", 0, int(min(w.events.Last()-w.lastEvent, firstEvents)))
	w.lastEvent = page[0].ID
	return w.send(&lmwardenv1.WatchResponse{Part: &lmwardenv1.WatchResponse_Events{Events: &lmwardenv1.WatchEventsPart{Events: eventsOf(page)}}})
}

func (w *pageWatch) send(m *lmwardenv1.WatchResponse) error {
	w.lastSent = time.Now()
	return w.stream.Send(m)
}
