package wire

// Verdict is what the beginning of an answer says of the engine that makes it.
type Verdict uint8

// The verdicts.
const (
	// Undecided means that there is nothing yet that a client would miss.
	Undecided Verdict = iota
	// Begun means that the engine has made something, or has an error of its own to tell.
	Begun
	// Aborted means that the answer was aborted before its first token.
	Aborted
	// EngineDead means that the answer is only that the engine is dead, or is being stopped.
	EngineDead
)

// Opening reads the beginning of a stream until it can be told what it is. It looks at
// every byte once, however many pieces they come in. Only events that an engine makes
// decide: announcements repeat what the client has sent, word by word.
type Opening struct {
	api   API
	cut   cutter
	ev    event
	frame int // where the current frame begins
	seen  int // up to where was looked for its end
}

// NewOpening returns the reader for the beginning of one answer.
func NewOpening(api API) Opening { return Opening{api: api} }

// Read is given all that has come of the stream, which begins with what it was given
// before. Behind any other verdict than [Undecided] it is not to be called again. A
// surface that generates nothing has no beginning to wait for.
func (o *Opening) Read(said []byte) Verdict {
	for {
		n := o.cut.cut(said[o.seen:])
		if n < 0 {
			o.seen = len(said)
			if !o.api.Generates() {
				return Begun
			}
			return Undecided
		}
		o.seen += n
		o.ev.parse(said[o.frame:o.seen])
		o.frame = o.seen
		if !o.ev.has {
			continue
		}
		produced, abort := toldBy(o.api, &o.ev)
		produced = produced || !o.api.Generates()
		switch {
		case produced && saysDead(errorOf(&o.ev)):
			return EngineDead
		case produced:
			return Begun
		case abort:
			return Aborted
		}
	}
}

// WholeVerdict is the verdict on a whole JSON answer with a status of HTTP.
func WholeVerdict(api API, status int, body []byte) Verdict {
	switch {
	case status >= 500:
		if said, _ := member(body, "error"); saysDead(said) {
			return EngineDead
		}
	case status < 300 && abortedWhole(api, body):
		return Aborted
	}
	return Begun
}

// errorOf returns the error that an event is about; nil when it is about none.
func errorOf(e *event) []byte {
	if said, ok := member(e.data, "error"); ok && string(said) != "null" {
		return said
	}
	switch typeOf(e) {
	case "error": // of the responses surface: its members stand beside the type
		return e.data
	case "response.failed":
		response, _ := member(e.data, "response")
		said, _ := member(response, "error")
		return said
	}
	return nil
}

// deadType is vLLM's name for the error of an engine that is dead.
const deadType = "EngineDeadError"

// deadMessages are how messages of vLLM's front end begin when the engine behind it is
// dead or is being stopped.
var deadMessages = [...]string{
	deadType,
	"EngineCore encountered an issue",
	"cannot schedule new futures after shutdown",
}

// saysDead says whether an error is that the engine is dead. The words have to be where
// vLLM puts them: other errors quote what the client has sent.
func saysDead(said []byte) bool {
	message, alone := textOf(said)
	if !alone {
		code, _ := member(said, "code")
		if n := intOf(code); n >= 400 && n < 500 {
			return false // the client's own fault
		}
		if memberText(said, "type") == deadType {
			return true
		}
		message = memberText(said, "message")
	}
	for _, begin := range deadMessages {
		if len(message) >= len(begin) && message[:len(begin)] == begin {
			return true
		}
	}
	return false
}

// Closed says whether a JSON value is all there, as far as its brackets and quotes tell:
// whether an object, an array or a string that was begun is closed.
func Closed(body []byte) bool {
	i := skipSpace(body, 0)
	if i == len(body) {
		return false
	}
	switch body[i] {
	case '{', '[', '"':
		return skipValue(body, i) >= 0
	}
	return true
}
