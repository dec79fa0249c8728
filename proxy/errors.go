package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// statusClientGone is recorded for a client that left before its answer was whole. It
// is never sent.
const statusClientGone = 499

// What can end a request early. The steps return these; refusalOf says what they mean
// to a client.
var (
	errClientGone   = errors.New("the client left before the answer was complete")
	errClientStuck  = fmt.Errorf("the client accepted nothing of the answer for too long: %w", errClientGone)
	errUnauthorized = errors.New("no valid API key was sent")
	errBodyTimeout  = errors.New("the request body did not arrive in time")
	errBodiesFull   = errors.New("the bodies of other requests take all the memory that there is for them")
	errBodyBroken   = errors.New("the request body broke off")
	errBodyEncoded  = errors.New("the request body is compressed")
	errModelType    = errors.New("model must be a string")
	errUnknownPath  = errors.New("there is nothing at this path")
	errHeldTooLong  = errors.New("the request was not let in for as long as it may wait")
	errModelGone    = errors.New("the model was removed while the request waited")
	errDrained      = errors.New("the replica was stopped while it worked on the request")
	errClosing      = errors.New("the proxy is shutting down")
	errStalled      = errors.New("the replica was silent for too long and was given up")
	errUnreachable  = errors.New("the replica cannot be reached")
	errCut          = errors.New("the replica closed the connection before the answer was complete")
	errDeadEngine   = errors.New("the engine of the replica has died")
	errNoStream     = errors.New("the replica answered a request for a stream with something else")
	errHeaderWait   = errors.New("the replica sent no answer in the time that is configured")
)

// bodyTooLargeError refuses a body over the limit, in bytes.
type bodyTooLargeError struct {
	limit int64
	whose string // limit it is: "key of team"; empty for that of all
}

// Error names the limit.
func (e *bodyTooLargeError) Error() string {
	if e.whose != "" {
		return fmt.Sprintf("the request body is over the limit of %s of the %s; send less", bytesText(e.limit), e.whose)
	}
	return fmt.Sprintf("the request body is over the limit of %s; send less, or raise max_body_bytes", bytesText(e.limit))
}

// unknownModelError refuses a name that is no model.
type unknownModelError struct {
	name  string
	names []string // that do exist
}

// methodError refuses a method at a path that takes others.
type methodError struct {
	method, path string
	allow        string // methods that the path takes: "GET, HEAD"
}

// Error names the methods that the path takes.
func (e *methodError) Error() string {
	return fmt.Sprintf("%s is not for %s; use %s", e.method, clip(e.path, longestName), e.allow)
}

// longestList is how many names an error lists.
const longestList = 50

// Error lists the names that exist.
func (e *unknownModelError) Error() string {
	switch {
	case len(e.names) == 0 && e.name == "":
		return "The request names no model, and none is configured yet. Add one with: lmwarden model add"
	case len(e.names) == 0:
		return fmt.Sprintf("The model `%s` does not exist: no model is configured yet. Add one with: lmwarden model add", clip(e.name, longestName))
	case len(e.names) > longestList:
		return fmt.Sprintf("The model `%s` does not exist. Among the names that do: %s.",
			clip(e.name, longestName), strings.Join(e.names[:longestList], ", "))
	case e.name == "":
		return fmt.Sprintf("The request names no model, and no default_model is configured. Send \"model\" with one of: %s.", strings.Join(e.names, ", "))
	default:
		return fmt.Sprintf("The model `%s` does not exist. Names that do: %s.", clip(e.name, longestName), strings.Join(e.names, ", "))
	}
}

// noReplicaError refuses a request of a model none of whose replicas is ready.
type noReplicaError struct {
	model string
	state string // of the model, for a person; may be empty
	rank  int    // replica that the client named, or -1
	// tripped says that this replica is ready, but failed what it got of late.
	tripped bool
	// halted says that trying again does not help before a person acted.
	halted bool
	after  time.Duration // until it may be tried again
}

// Error says why no replica is ready.
func (e *noReplicaError) Error() string {
	s := fmt.Sprintf("No replica of model `%s` is ready", e.model)
	if e.rank >= 0 {
		s = fmt.Sprintf("Replica %d of model `%s`, which the header %s names, is not ready", e.rank, e.model, headerRank)
		if e.tripped {
			s = strings.TrimSuffix(s, "is not ready") + "failed the last requests that it got and is left alone for a moment"
		}
	}
	if e.state != "" {
		s += ": " + strings.TrimRight(e.state, ".")
	}
	if e.halted {
		return s + "."
	}
	return fmt.Sprintf("%s. Try again in %d s.", s, wholeSeconds(e.after))
}

// queueFullError refuses a request of a model for which as many wait as may.
type queueFullError struct {
	model string
	held  int           // requests that wait
	after time.Duration // until they will have been let in
}

// Error names the setting that bounds them.
func (e *queueFullError) Error() string {
	return fmt.Sprintf("The queue of model `%s` holds %s, as many as its setting max_queue allows. Try again in %d s.",
		e.model, amount(e.held, "request"), wholeSeconds(e.after))
}

// unknownResponseError refuses a stored response whose maker is not known.
type unknownResponseError struct{ id string }

// Error names the response.
func (e *unknownResponseError) Error() string {
	return fmt.Sprintf("No replica is known to hold the response `%s`: it is too old, or was made before the proxy started.", clip(e.id, longestName))
}

// holderRestsError refuses what only one replica can answer while that one takes no
// requests.
type holderRestsError struct {
	replica  int // its index
	response string
	after    time.Duration // until it may be tried again
}

// Error names both.
func (e *holderRestsError) Error() string {
	return fmt.Sprintf("Replica %d alone holds the response `%s`, and it takes no requests now. Try again in %d s.",
		e.replica, clip(e.response, longestName), wholeSeconds(e.after))
}

// longestName is how much of a name that a client sent is repeated to it, in bytes.
const longestName = 256

// refusal is what a client is told: the one place where errors become HTTP.
type refusal struct {
	status     int
	message    string
	param      string // field of the request at fault, or empty
	retryAfter int    // seconds, or 0 for no advice
	allow      string // methods that the path takes, or empty
}

// refusalOf says what an error means to a client. Only errors of this package show
// their text; anything else is hidden behind the id of the request, and logged.
func refusalOf(err error, requestID string) refusal {
	var (
		large    *bodyTooLargeError
		limit    *limitError
		unknown  *unknownModelError
		method   *methodError
		none     *noReplicaError
		response *unknownResponseError
		rests    *holderRestsError
		full     *queueFullError
		syntax   *wire.SyntaxError
		form     *formError
	)
	switch {
	case errors.Is(err, errClientGone), errors.Is(err, context.Canceled):
		return refusal{status: statusClientGone, message: errClientGone.Error()}
	case errors.As(err, &large):
		return refusal{status: http.StatusRequestEntityTooLarge, message: sentence(err)}
	case errors.As(err, &limit):
		return refusal{status: http.StatusTooManyRequests, message: err.Error(), retryAfter: limit.seconds()}
	case errors.As(err, &unknown):
		return refusal{status: http.StatusNotFound, message: err.Error(), param: "model"}
	case errors.As(err, &method):
		return refusal{status: http.StatusMethodNotAllowed, message: sentence(err), allow: method.allow}
	case errors.As(err, &none):
		r := refusal{status: http.StatusServiceUnavailable, message: err.Error(), retryAfter: wholeSeconds(none.after)}
		if none.halted {
			r.retryAfter = 0
		}
		return r
	case errors.As(err, &full):
		return refusal{status: http.StatusServiceUnavailable, message: err.Error(), retryAfter: wholeSeconds(full.after)}
	case errors.As(err, &response):
		return refusal{status: http.StatusNotFound, message: err.Error()}
	case errors.As(err, &rests):
		return refusal{status: http.StatusServiceUnavailable, message: err.Error(), retryAfter: wholeSeconds(rests.after)}
	case errors.As(err, &syntax), errors.As(err, &form):
		return refusal{status: http.StatusBadRequest, message: sentence(err)}
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			r := known.refusal
			r.message = sentence(err) + r.message
			if wait := new(later); errors.As(err, &wait) {
				r.retryAfter = wholeSeconds(wait.after)
			}
			return r
		}
	}
	return refusal{
		status:  http.StatusInternalServerError,
		message: "The proxy failed on this request. Its log says more under request " + requestID + ".",
	}
}

// refusals are the sentinels' meanings; message is what is added to the error's own
// text.
var refusals = []struct {
	err     error
	refusal refusal
}{
	{errUnauthorized, refusal{status: http.StatusUnauthorized, message: " Send one as Authorization: Bearer KEY, or as x-api-key."}},
	{errBodyTimeout, refusal{status: http.StatusRequestTimeout, message: " Send the request again; no replica has seen it."}},
	{errBodiesFull, refusal{status: http.StatusServiceUnavailable, message: " Send the request again.", retryAfter: 5}},
	{errBodyBroken, refusal{status: http.StatusBadRequest, message: " Send the request again; no replica has seen it."}},
	{errBodyEncoded, refusal{status: http.StatusUnsupportedMediaType, message: " Send it without Content-Encoding."}},
	{errModelType, refusal{status: http.StatusBadRequest, message: " Send the name of one that GET /v1/models lists.", param: "model"}},
	{errUnknownPath, refusal{status: http.StatusNotFound, message: " The API is under /v1, beginning with GET /v1/models."}},
	{errHeldTooLong, refusal{status: http.StatusServiceUnavailable, message: " Try again later."}}, // when, later says
	{errModelGone, refusal{status: http.StatusNotFound, message: " Send the name of one that GET /v1/models lists.", param: "model"}},
	{errDrained, refusal{status: http.StatusServiceUnavailable, message: " Send the request again.", retryAfter: 1}},
	{errClosing, refusal{status: http.StatusServiceUnavailable, message: " Send the request again later.", retryAfter: 5}},
	{errStalled, refusal{status: http.StatusGatewayTimeout, message: " Send the request again; the engine's log may say why."}},
	{errHeaderWait, refusal{status: http.StatusGatewayTimeout, message: " Send the request again; the engine's log may say why."}},
	{errNoStream, refusal{status: http.StatusBadGateway, message: " Send the request again, or without \"stream\": true."}},
	{errUnreachable, refusal{status: http.StatusBadGateway, message: " Send the request again.", retryAfter: 1}},
	{errDeadEngine, refusal{status: http.StatusBadGateway, message: " Send the request again.", retryAfter: 1}},
	{errCut, refusal{status: http.StatusBadGateway, message: " Send the request again.", retryAfter: 1}},
}

// sentence turns the text of an error into one.
func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + strings.TrimRight(s[1:], ".") + "."
}

// bytesText writes a number of bytes as a person would: 64 MiB, 1000 bytes.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
