package face

import (
	"errors"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
)

// patternWords say for a person what the patterns of the API's rules ask for.
var patternWords = map[string]string{
	`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`: "must begin with a letter or a digit and may have only letters, digits and . _ : / - in it",
	`^[A-Za-z_][A-Za-z0-9_]*$`:       "must begin with a letter or _ and may have only letters, digits and _ in it",
	`^[A-Za-z0-9_.-]*$`:              "may have only letters, digits and _ . - in it",
	`^[A-Za-z0-9-]*$`:                "may have only letters, digits and - in it",
	`^[A-Za-z0-9_-]*$`:               "may have only letters, digits and _ - in it",
	`^[^*]*\*?$`:                     "may have one star, at its end",
}

// Invalid says which fields of a message break their rules. As a
// [protovalidate.ValidationError] it has the details for machines.
type Invalid struct {
	Cause *protovalidate.ValidationError
}

// Error names each field and what it must be.
func (e *Invalid) Error() string {
	var problems []string
	for _, v := range e.Cause.Violations {
		text := v.Proto.GetMessage()
		if field := protovalidate.FieldPathString(v.Proto.GetField()); field != "" {
			text = field + ": " + text
		}
		problems = append(problems, text)
	}
	return strings.Join(problems, "; ")
}

// Unwrap returns the details.
func (e *Invalid) Unwrap() error { return e.Cause }

// Validate checks a message against the rules of its fields. What is wrong is an
// [*Invalid]; any other error means that a rule could not be checked.
func Validate(m proto.Message, options ...protovalidate.ValidationOption) error {
	err := protovalidate.Validate(m, options...)
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) || len(broken.Violations) == 0 {
		return err
	}
	for _, v := range broken.Violations {
		if v.Proto.GetRuleId() != "string.pattern" {
			continue
		}
		if words, ok := patternWords[v.RuleValue.String()]; ok {
			v.Proto.Message = proto.String(words)
		}
	}
	return &Invalid{broken}
}

// Rules is [Validate] as a validator of requests and of files.
type Rules struct{}

// Validate checks a message.
func (Rules) Validate(m proto.Message, options ...protovalidate.ValidationOption) error {
	return Validate(m, options...)
}
