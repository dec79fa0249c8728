package server

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// mostNamed is how many conversations an error names.
const mostNamed = 5

// defaultPage is the size of a page when the caller asks for none.
const defaultPage = 100

// routingService answers lmwarden.v1.RoutingService.
type routingService struct{ *control }

var _ lmwardenv1connect.RoutingServiceHandler = routingService{}

// GetRouting returns the routing card of a model.
func (s routingService) GetRouting(_ context.Context, req *lmwardenv1.GetRoutingRequest) (*lmwardenv1.GetRoutingResponse, error) {
	card, err := s.card(req.GetModel())
	return &lmwardenv1.GetRoutingResponse{Card: card}, err
}

func (c *control) card(model string) (*lmwardenv1.RoutingCard, error) {
	e, err := c.models.get(model)
	if err != nil {
		return nil, err
	}
	if e.broken != nil {
		return nil, brokenModel(model, e.broken)
	}
	return c.routingCard(e), nil
}

// UpdateRouting changes routing settings live. When it answers the router has them.
func (s routingService) UpdateRouting(ctx context.Context, req *lmwardenv1.UpdateRoutingRequest) (*lmwardenv1.UpdateRoutingResponse, error) {
	var before *lmwardenv1.RoutingSettings
	e, err := s.models.update(req.GetModel(), req.GetRevision(), func(m *lmwardenv1.Model) error {
		before = proto.CloneOf(m.GetRouting())
		if m.Routing == nil {
			m.Routing = &lmwardenv1.RoutingSettings{}
		}
		return applyMask(m.GetRouting(), req.GetSettings(), req.GetUpdateMask())
	})
	if err != nil {
		return nil, err
	}
	s.noteChange("routing_changed", req.GetModel(), "Routing", req.GetModel(), before, e.model.GetRouting(), req.GetUpdateMask().GetPaths())
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	return &lmwardenv1.UpdateRoutingResponse{Card: s.routingCard(e)}, nil
}

// WatchRouting sends the card now and whenever it changed.
func (s routingService) WatchRouting(ctx context.Context, req *lmwardenv1.WatchRoutingRequest, stream lmwardenv1connect.RoutingServiceWatchRoutingServerStream) error {
	return watch(ctx, func() (*lmwardenv1.WatchRoutingResponse, error) {
		card, err := s.card(req.GetModel())
		return &lmwardenv1.WatchRoutingResponse{Card: card}, err
	}, stream.Send)
}

// ListConversations lists the conversations that the router remembers, latest active
// first. The page token counts those that were passed: a conversation that is active
// between two pages may be seen twice or not.
func (s routingService) ListConversations(_ context.Context, req *lmwardenv1.ListConversationsRequest) (*lmwardenv1.ListConversationsResponse, error) {
	if _, err := s.models.get(req.GetModel()); err != nil {
		return nil, err
	}
	skip, err := pageStart(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	var views []route.ConversationView
	var seen uint64
	more := false
	s.plane.Conversations(req.GetModel(), func(v route.ConversationView) bool {
		if req.Replica != nil && v.Home != int(req.GetReplica()) {
			return true
		}
		if seen++; seen <= skip {
			return true
		}
		if more = len(views) == size; more {
			return false
		}
		views = append(views, v)
		return true
	})
	out := &lmwardenv1.ListConversationsResponse{}
	sources := s.keySources(req.GetModel())
	for _, v := range views {
		out.Conversations = append(out.Conversations, conversation(v, sources))
	}
	if more {
		out.NextPageToken = strconv.FormatUint(skip+uint64(len(views)), 10)
	}
	return out, nil
}

// MoveConversation gives a conversation another home.
func (s routingService) MoveConversation(_ context.Context, req *lmwardenv1.MoveConversationRequest) (*lmwardenv1.MoveConversationResponse, error) {
	found, err := s.conversation(req.GetModel(), req.GetConversation())
	if err != nil {
		return nil, err
	}
	if n := len(s.statuses(req.GetModel())); int64(req.GetReplica()) >= int64(n) {
		return nil, unknownReplica(req.GetModel(), req.GetReplica(), n)
	}
	if err := s.plane.Move(req.GetModel(), found.Key, int(req.GetReplica())); err != nil {
		return nil, err
	}
	moved, err := s.conversation(req.GetModel(), keyID(found.Key))
	if err != nil {
		return nil, err
	}
	return &lmwardenv1.MoveConversationResponse{Conversation: conversation(moved, s.keySources(req.GetModel()))}, nil
}

// ForgetConversation forgets a conversation; its next turn is placed anew.
func (s routingService) ForgetConversation(_ context.Context, req *lmwardenv1.ForgetConversationRequest) (*lmwardenv1.ForgetConversationResponse, error) {
	found, err := s.conversation(req.GetModel(), req.GetConversation())
	if err != nil {
		return nil, err
	}
	return &lmwardenv1.ForgetConversationResponse{}, s.plane.Forget(req.GetModel(), found.Key)
}

// conversation finds a conversation by the id that is shown of it, or by a beginning of
// that which no other conversation has.
func (c *control) conversation(model, id string) (found route.ConversationView, err error) {
	if _, err := c.models.get(model); err != nil {
		return found, err
	}
	var ids []string
	exact := false
	c.plane.Conversations(model, func(v route.ConversationView) bool {
		shown := keyID(v.Key)
		if exact = shown == id; exact {
			found, ids = v, []string{shown}
		} else if strings.HasPrefix(shown, id) {
			found, ids = v, append(ids, shown)
		}
		return !exact && len(ids) < mostNamed
	})
	switch {
	case len(ids) == 0:
		return found, unknownConversation(model, id)
	case len(ids) > 1:
		return found, severalConversations(model, id, ids)
	}
	return found, nil
}

// ExplainRequest returns the whole decision record of one request.
func (s routingService) ExplainRequest(_ context.Context, req *lmwardenv1.ExplainRequestRequest) (*lmwardenv1.ExplainRequestResponse, error) {
	record, err := s.request(req.GetId())
	return &lmwardenv1.ExplainRequestResponse{Record: record}, err
}

func (c *control) request(id string) (*lmwardenv1.RequestRecord, error) {
	r, ok := c.stats.Request(id)
	if !ok {
		return nil, unknownRequest(id)
	}
	return requestRecord(&r), nil
}

// pageStart reads a page token: where the page begins, 0 for the first.
func pageStart(token string) (uint64, error) {
	if token == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(token, 10, 63)
	if err != nil || n == 0 {
		return 0, invalid("page_token %q is none of ours; send the next_page_token of the page before, or none for the first page", token)
	}
	return n, nil
}

// pageSize returns the size of a page.
func pageSize(asked uint32) int {
	if asked == 0 {
		return defaultPage
	}
	return int(asked)
}

// pageToken is the reverse of pageStart.
func pageToken(next uint64) string {
	if next == 0 {
		return ""
	}
	return strconv.FormatUint(next, 10)
}
