package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/rs/zerolog"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/store"
	"github.com/lmwarden/lmwarden/supervisor"
)

// errorDomain is the domain of the machine-readable reasons.
const errorDomain = "lmwarden"

// refusal is a call that is answered with no, before anything changed. Message says
// what, why and what to do; reason is for machines.
type refusal struct {
	code    connect.Code
	reason  string
	message string
	facts   map[string]string
}

// Error returns the sentence.
func (r *refusal) Error() string { return r.message }

// errStopping answers calls that come while the daemon ends.
var errStopping error = &refusal{connect.CodeUnavailable, "STOPPING", "the daemon is stopping; call again when it runs", nil}

func unknownModel(name string, names []string) error {
	there := "there are " + strings.Join(names, ", ")
	if len(names) == 0 {
		there = "there is none yet; add one on the page or with \"lmwarden model add\""
	}
	return &refusal{connect.CodeNotFound, "MODEL_NOT_FOUND", fmt.Sprintf("there is no model %q; %s", name, there), map[string]string{"model": name}}
}

func unknownReplica(model string, index uint32, count int) error {
	there := fmt.Sprintf("it has replicas 0 to %d", count-1)
	if count == 0 {
		there = "it has none while it is stopped; start the model first"
	}
	return &refusal{connect.CodeNotFound, "REPLICA_NOT_FOUND", fmt.Sprintf("model %s has no replica %d; %s", model, index, there), map[string]string{"model": model}}
}

func unknownConversation(model, id string) error {
	return &refusal{connect.CodeNotFound, "CONVERSATION_NOT_FOUND", fmt.Sprintf("model %s knows no conversation %q; it may have been idle too long. \"lmwarden conversation list %s\" shows those it knows", model, id, model), nil}
}

func severalConversations(model, beginning string, ids []string) error {
	return &refusal{connect.CodeInvalidArgument, "CONVERSATION_NOT_UNIQUE", fmt.Sprintf("%q begins the ids of several conversations of model %s (%s); write more of the one you mean", beginning, model, strings.Join(ids, ", ")), nil}
}

func unknownRequest(id string) error {
	return &refusal{connect.CodeNotFound, "REQUEST_NOT_FOUND", fmt.Sprintf("request %q is not in the history; it holds the latest requests only, by the id in the response header x-lmwarden-request", id), nil}
}

func nameTaken(name, owner string) error {
	return &refusal{connect.CodeAlreadyExists, "NAME_TAKEN", fmt.Sprintf("the name %q is taken by model %s; choose another name or remove it there", name, owner), map[string]string{"model": owner}}
}

func declaredModel(name, file string) error {
	return &refusal{connect.CodeFailedPrecondition, "DECLARED_MODEL", fmt.Sprintf("model %s is declared in %s and is read-only here; change it there and restart the daemon", name, file), map[string]string{"declared_in": file}}
}

func unknownKey(name string, names []string) error {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return &refusal{connect.CodeNotFound, "KEY_NOT_FOUND", fmt.Sprintf("there is no key %q; there are %s. The name of a key is the text after \" #\" on its line of the keys file", name, strings.Join(quoted, ", ")), map[string]string{"key": name}}
}

func declaredKey(name, file string) error {
	return &refusal{connect.CodeFailedPrecondition, "DECLARED_KEY", fmt.Sprintf("the limits of key %q are declared in %s and are read-only here; change them there and restart the daemon", name, file), map[string]string{"declared_in": file}}
}

func brokenModel(name string, why error) error {
	return &refusal{connect.CodeFailedPrecondition, "BROKEN_MODEL", fmt.Sprintf("the stored record of model %s is broken (%v); delete the model and make it anew", name, why), nil}
}

func stoppedModel(name string) error {
	return &refusal{connect.CodeFailedPrecondition, "MODEL_STOPPED", fmt.Sprintf("model %s is stopped; start it first", name), nil}
}

func noCards(why string) error {
	return &refusal{connect.CodeFailedPrecondition, "CARDS_DO_NOT_SUFFICE", why, nil}
}

func fixedAtCreation(field string) error {
	return &refusal{connect.CodeFailedPrecondition, "FIXED_AT_CREATION", fmt.Sprintf("%s is fixed when a model is made; delete the model and make it anew", field), map[string]string{"field": field}}
}

func invalid(format string, args ...any) error {
	return &refusal{connect.CodeInvalidArgument, "INVALID_ARGUMENT", fmt.Sprintf(format, args...), nil}
}

// toWire turns every error of a handler into one of the API. What it does not know is
// logged with an id and hidden behind it: the text may hold what a caller should not
// see.
func toWire(err error, log zerolog.Logger) error {
	if err == nil {
		return nil
	}
	if coded := (*connect.Error)(nil); errors.As(err, &coded) {
		return coded
	}
	if r := (*refusal)(nil); errors.As(err, &r) {
		return coded(r.code, r.reason, r.message, r.facts)
	}
	if stale := (*store.StaleError)(nil); errors.As(err, &stale) {
		return coded(connect.CodeAborted, "STALE_REVISION", stale.Error(), map[string]string{"revision": strconv.FormatUint(stale.Current, 10)})
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, "the call took longer than its deadline; what was begun goes on")
	case errors.Is(err, proxy.ErrUnknownConversation), errors.Is(err, proxy.ErrUnknownReplica), errors.Is(err, proxy.ErrUnknownModel), errors.Is(err, supervisor.ErrNoLog):
		return coded(connect.CodeNotFound, "NOT_FOUND", err.Error(), nil)
	case errors.Is(err, syscall.ENOSPC):
		return coded(connect.CodeResourceExhausted, "DISK_FULL", "the disk of the data directory is full and nothing was changed; make room and repeat the call", nil)
	}
	id := rand.Text()[:8]
	log.Error().Err(err).Str("error_id", id).Msg("a call failed")
	return connect.Errorf(connect.CodeInternal, "something went wrong inside the daemon; its log has the cause under error_id %s", id)
}

func coded(code connect.Code, reason, message string, facts map[string]string) error {
	e := connect.NewError(code, message)
	detail, err := connectproto.NewErrorDetail(&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: facts})
	if err != nil {
		return e
	}
	return e.WithDetail(detail)
}

// mapErrors returns the interceptor that is the outermost of all: no error and no
// panic of a handler passes it unmapped.
func mapErrors(log zerolog.Logger) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) (err error) {
			defer func() {
				if p := recover(); p != nil {
					log.Error().Str("procedure", spec.Procedure).Bytes("stack", debug.Stack()).Msg("a call panicked")
					err = fmt.Errorf("panic: %v", p)
				}
				err = toWire(err, log)
			}()
			return next(ctx, spec, stream)
		}
	}
}
