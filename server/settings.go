package server

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
	"github.com/lmwarden/lmwarden/server/face"
)

// defaultAdmission is the admission of a model that states none. It holds nobody before
// every replica has told its capacity, and nobody below capacity: what it changes is
// the overload, where caches would otherwise keep nothing between turns.
func defaultAdmission() lmwardenv1.Admission { return lmwardenv1.Admission_ADMISSION_WORKING_SET }

// admissionInForce returns the admission of a model.
func admissionInForce(s *lmwardenv1.RoutingSettings) lmwardenv1.Admission {
	if a := s.GetAdmission(); a != lmwardenv1.Admission_ADMISSION_UNSPECIFIED {
		return a
	}
	return defaultAdmission()
}

// routeSettings returns the router's settings: what is stated, and its defaults for
// the rest.
func routeSettings(s *lmwardenv1.RoutingSettings) route.Settings {
	out := route.DefaultSettings()
	if s == nil {
		s = &lmwardenv1.RoutingSettings{}
	}
	if s.Affinity != nil {
		out.Affinity = s.GetAffinity()
	}
	if s.ClientPinning != nil {
		out.ClientPinning = s.GetClientPinning()
	}
	out.SpillThreshold = int(s.GetSpillThreshold()) // absent is 0, which is auto
	if s.GetSpill() == lmwardenv1.SpillRule_SPILL_RULE_PRICED {
		out.Spill = route.SpillPriced
	}
	if admissionInForce(s) == lmwardenv1.Admission_ADMISSION_WORKING_SET {
		out.Admission = route.AdmissionWorkingSet
	}
	switch s.GetPolicy() {
	case lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_HASH:
		out.Policy = route.PolicyHash
	case lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_ROUND_ROBIN:
		out.Policy = route.PolicyRoundRobin
	case lmwardenv1.PlacementPolicy_PLACEMENT_POLICY_RANDOM:
		out.Policy = route.PolicyRandom
	}
	setSpan(&out.IdleMain, s.GetConversationIdle())
	setSpan(&out.IdleAgent, s.GetSubagentIdle())
	setSpan(&out.MaxHold, s.GetMaxHold())
	setCount(&out.MaxConversations, s.MaxConversations)
	setCount(&out.MaxQueue, s.MaxQueue)
	return out
}

// identityOptions returns which sources of a conversation's key count beyond those that
// always do.
func identityOptions(s *lmwardenv1.RoutingSettings) wire.Options {
	var o wire.Options
	for _, name := range s.GetSessionHeaders() {
		o.ExtraHeaders = append(o.ExtraHeaders, http.CanonicalHeaderKey(name)) // once, and not with each request
	}
	for _, source := range s.GetIdentitySources() {
		switch source {
		case "user":
			o.User = true
		case "safety_identifier":
			o.Safety = true
		case "metadata.user_id":
			o.MetadataUser = true
		case "x-user-id":
			o.UserHeader = true
		case "x-correlation-id":
			o.Correlation = true
		case "client-ip":
			o.ClientIP = true
		}
	}
	return o
}

func setSpan(p *time.Duration, d *durationpb.Duration) {
	if d != nil {
		*p = d.AsDuration()
	}
}

func setCount(p *int, n *uint32) {
	if n != nil {
		*p = int(*n)
	}
}

// applyMask copies the fields that a mask names from src to dst, also absent ones. It
// refuses names that are no settings, and fields that are fixed once the object is
// made, before anything is copied.
func applyMask(dst, src proto.Message, mask *fieldmaskpb.FieldMask) error {
	if len(mask.GetPaths()) == 0 {
		return invalid("update_mask names no field; name those to change, as in \"%s\"", face.Fields(dst.ProtoReflect().Descriptor())[0].Name)
	}
	to, from := dst.ProtoReflect(), src.ProtoReflect()
	var fields []protoreflect.FieldDescriptor
	for _, path := range mask.GetPaths() {
		f, err := face.Find(to.Descriptor(), path)
		if err != nil {
			return invalid("update_mask: %v", err)
		}
		fd := to.Descriptor().Fields().ByName(protoreflect.Name(f.Name))
		if f.Face.GetApplies() == lmwardenv1.Applies_APPLIES_AT_CREATION && !sameField(to, from, fd) {
			return fixedAtCreation(f.Name)
		}
		fields = append(fields, fd)
	}
	for _, fd := range fields {
		if from.Has(fd) {
			to.Set(fd, from.Get(fd))
		} else {
			to.Clear(fd)
		}
	}
	return nil
}

func sameField(a, b protoreflect.Message, fd protoreflect.FieldDescriptor) bool {
	return a.Has(fd) == b.Has(fd) && (!a.Has(fd) || a.Get(fd).Equal(b.Get(fd)))
}
