package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// keyService answers lmwarden.v1.KeyService.
type keyService struct{ *control }

var _ lmwardenv1connect.KeyServiceHandler = keyService{}

// ListKeys lists the keys with their limits.
func (s keyService) ListKeys(context.Context, *lmwardenv1.ListKeysRequest) (*lmwardenv1.ListKeysResponse, error) {
	out := &lmwardenv1.ListKeysResponse{}
	for _, name := range s.limits.names() {
		out.Keys = append(out.Keys, s.limits.describe(name))
	}
	return out, nil
}

// UpdateKey changes the limits of a key live. When it answers the proxy has them.
func (s keyService) UpdateKey(ctx context.Context, req *lmwardenv1.UpdateKeyRequest) (*lmwardenv1.UpdateKeyResponse, error) {
	var before, after *lmwardenv1.KeyLimits
	err := s.limits.update(req.GetName(), req.GetRevision(), func(l *lmwardenv1.KeyLimits) error {
		before, after = proto.CloneOf(l), l
		return applyMask(l, req.GetLimits(), req.GetUpdateMask())
	})
	if err != nil {
		return nil, err
	}
	s.noteChange("key_changed", "", "Limits", "key "+req.GetName(), before, after, req.GetUpdateMask().GetPaths())
	if err := s.loop.sync(ctx); err != nil {
		return nil, err
	}
	key, err := s.limits.key(req.GetName())
	return &lmwardenv1.UpdateKeyResponse{Key: key}, err
}
